"""The command line's experiments: `stagewise run`, any task from training to report, and a command a paper."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from stagewise.cli import _options as options
from stagewise.cli import _papers
from stagewise.cli._commands import Command, command
from stagewise.cli._findings import show
from stagewise.cli._names import TASKS
from stagewise.cli._recipes import recipe_of

ANY = "TASK"
"""The command that stands for every name that is not a command itself."""


class TaskGroup(TyperGroup):
    """A group of commands in which any other name is that of a task."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of the first argument, or the one that runs any task, under the name of the task."""
        name = args[0]
        if name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        return name, self.get_command(ctx, ANY), args[1:]


run_app = typer.Typer(cls=TaskGroup, help="Run a task or a paper's experiment, to the report.", no_args_is_help=True)


def run_task(
    ctx: typer.Context,
    *,
    folder: options.RunFolder = None,
    changes: options.RecipeOptions,
    probe: options.MoreProbes = None,
    chosen: options.ProbeOptions,
    baselines: options.BaselineOptions,
    passes: options.PassOptions,
    as_json: options.AsJson = False,
) -> None:
    """Train a preset of the task, probe every checkpoint, find the stages, write the report."""
    from stagewise.analysis import run

    task = str(ctx.info_name)
    measurement = options.Measurement(dataclasses.replace(passes, quiet=passes.quiet or as_json), chosen, probe)
    analysis = run(
        recipe_of(task, changes),
        folder or Path("runs", task.replace(":", "-")),
        restricted=baselines.read(),
        **measurement.arguments(),
    )
    show(analysis.stages, as_json, analysis.series.name)
    print(f"report: {analysis.report}", file=sys.stderr if as_json else sys.stdout)


_HELP = f"Run a task from training to report: {', '.join(TASKS)}, or one's own as module:Class."
run_app.command(ANY, cls=Command, help=_HELP)(command(run_task, models=True))
for _name, _function in _papers.COMMANDS.items():
    run_app.command(_name)(command(_function, models=True))
