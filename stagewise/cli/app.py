"""The command line: what a person needs stands at the top, the other verbs in groups.

Installed packages add commands and groups: see `entry_points`.
"""

from collections.abc import Callable
from typing import Any

import typer

from stagewise.cli._commands import command
from stagewise.cli._findings import compare, stages
from stagewise.cli._groups import OpenGroup
from stagewise.cli._replays import branch, certify, densify, intervene
from stagewise.cli._series import suites
from stagewise.cli._sweep import sweep
from stagewise.cli._verbs import audit, measure, report, run_app, train
from stagewise.cli._watch import watch

TOP = (report, stages, watch, audit, densify, train, measure)
GROUPS: dict[str, tuple[str, tuple[Callable[..., None], ...]]] = {
    "series": (
        "Compare runs and heads; sweep settings; known suites.",
        (compare, sweep, suites),
    ),
    "cause": (
        "Continue a run changed: what each transition depends on.",
        (branch, intervene, certify),
    ),
}
"""Group -> its help, and its commands."""

_WITHOUT_MODELS = (audit, stages, compare, suites, report, watch)
"""Commands that run models, if at all, only after a look at what is there."""


class Commands(OpenGroup):
    """The commands at the top."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names as help lists them, `run` first."""
        return sorted(super().list_commands(ctx), key="run".__ne__)


def _add(group: typer.Typer, verbs: tuple[Callable[..., None], ...]) -> None:
    for verb in verbs:
        group.command()(command(verb, models=verb not in _WITHOUT_MODELS))


app = typer.Typer(
    cls=Commands,
    help="In which stages did a model's attention heads learn what they do?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_add(app, TOP)
app.add_typer(run_app, name="run")
for _name, (_help, _verbs) in GROUPS.items():
    _group = typer.Typer(cls=OpenGroup, help=_help, no_args_is_help=True)
    _add(_group, _verbs)
    app.add_typer(_group, name=_name)
