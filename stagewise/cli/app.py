"""The command line: a thin face of the verbs."""

import typer

from stagewise.cli._atlas import atlas, suites
from stagewise.cli._commands import Command, command
from stagewise.cli._findings import compare, export, lineage, stages
from stagewise.cli._replays import attribute, branch, certify, densify, intervene
from stagewise.cli._sweep import sweep
from stagewise.cli._trajectory import llc, relations, trajectory
from stagewise.cli._verbs import audit, measure, report, run_app, train
from stagewise.cli._watch import watch

app = typer.Typer(
    help="In which stages did a model's attention heads learn what they do?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(run_app, name="run")
_WITHOUT_MODELS = (audit, stages, lineage, compare, export, suites, report, watch)
"""Commands that run models, if at all, only after a look at what is there."""

for _verb in (
    *(audit, stages, lineage, compare, export, trajectory, relations, llc),
    *(densify, branch, attribute, intervene, certify, sweep, suites, atlas, train, measure, report, watch),
):
    app.command(cls=Command)(command(_verb, models=_verb not in _WITHOUT_MODELS))
