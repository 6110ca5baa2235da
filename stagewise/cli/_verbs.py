"""`stagewise train`, `measure` and `report`."""

import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Any, cast

import typer

import stagewise
from stagewise import checkpoints, reporting, words
from stagewise.cli import _options as options
from stagewise.cli import _sources
from stagewise.cli._commands import command
from stagewise.cli._findings import show
from stagewise.cli._groups import OpenGroup
from stagewise.cli._names import TASKS, run_folder_named, task_classes
from stagewise.cli._options import AsJson, DataOptions, Origin, OwnTask, SeriesOptions
from stagewise.cli._recipes import recipe_in, recipe_of
from stagewise.plain_text import file_part
from stagewise.processes import cores

ANY = "TASK"
"""The command that stands for every name that is not a command itself."""


def train(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK|FOLDER|RECORD",
            help="a task; a run folder to resume, ./NAME where it has a task's name; a run.json to repeat in --folder",
        ),
    ],
    *,
    folder: options.RunFolder = None,
    changes: options.RecipeOptions,
    own_task: options.OwnTask = None,
    device: options.Device = "cpu",
    dtype: options.DtypeName = "float32",
    quiet: options.Quiet = False,
) -> None:
    """Train a preset of a task, resume a run, or repeat a record."""
    if (record := Path(task)).is_file():
        recipe = recipe_in(record, changes, own_task or ())
        folder = folder or Path("runs", f"{file_part(record.absolute().parent.name)}-again")
    elif (run := run_folder_named(task)) is not None:
        recipe, folder = recipe_in(run, changes, own_task or ()), run
    else:
        recipe, folder = recipe_of(task, changes), folder or Path("runs", task.replace(":", "-"))
    print(stagewise.train(recipe, folder, progress=not quiet, device=device, dtype=cast(Any, dtype)))


def measure(
    source: options.Origin,
    *,
    out: options.Out = None,
    data: options.DataOptions,
    measurement: options.Measurement,
) -> None:
    """Run probes on every checkpoint of a source; write the table."""
    from stagewise.saved_findings import familiarity_in

    opened = _sources.opened_source(source, data, out)
    folder = opened.folder
    [faults] = _sources.measure_each([opened], measurement)
    if faults is not None:
        if (familiarity := familiarity_in(folder)) is not None:
            print(familiarity)
        print(faults)
    print(f"{len(checkpoints.table_file(folder))} rows: {folder / checkpoints.TABLE}")


def report(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...", help="a source, as for the other commands; several seeds give one report on all"
        ),
    ],
    *,
    out: options.Out = None,
    step_column: options.StepsColumn = None,
    cause: options.Causes = None,
    data: options.DataOptions,
    axis: options.Axis = "steps",
    measurement: options.Measurement,
) -> None:
    """Write report.html; measure first what was not measured.

    Several sources, as seeds, give one report.
    """
    causes, runs = options.read_causes(cause), _sources.each_run(sources, out, step_column)
    measured = _sources.measured_first(runs, data, measurement, out if len(runs) == 1 else None)
    if len(runs) > 1:
        folders, first = [folder for folder, _ in measured], Path(runs[0])
        _sources.name_causes_of(folders, causes)
        place = out or Path("runs", f"{file_part(first.name)}-and-{len(runs) - 1}-more")
        place = first.parents[1] if len(sources) == 1 else place
        seeds = reporting.report_seeds(folders, place, axis, data.tokens_per_step)
        print(seeds)
    else:
        [(folder, analysis)] = measured
        _sources.name_causes_of([folder], causes)
        if analysis is not None and not causes and axis == "steps":
            print(analysis)
        else:
            _report_of(folder, axis, data.tokens_per_step)


def _report_of(folder: Path, axis: str, tokens_per_step: int | None) -> None:
    page = stagewise.report(folder, workers=cores(), axis=axis, tokens_per_step=tokens_per_step)
    with words.written_on(reporting.axis_in(folder, axis, tokens_per_step)):
        if (stages := stagewise.load_stages(folder)) is not None:
            print(" ".join(words.answer(stages)))
    if lacking := checkpoints.unmeasured_in_words(folder):
        print(lacking)
    print(f"report: {page}")


class TaskGroup(OpenGroup):
    """A group of commands in which any other name is that of a task."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of the first argument, or the one that runs any task, under the name of the task."""
        name = args[0]
        if name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        return name, self.get_command(ctx, ANY), args[1:]


run_app = typer.Typer(
    cls=TaskGroup, help="Train a task's model, measure it and write the report.", no_args_is_help=True
)


def run_task(
    ctx: typer.Context,
    *,
    folder: options.RunFolder = None,
    changes: options.RecipeOptions,
    restricted: options.Restricted = None,
    measurement: options.ProbeOptions,
    as_json: options.AsJson = False,
) -> None:
    """Train a preset of the task, probe every checkpoint, find the stages, write the report."""
    task = str(ctx.info_name)
    measurement = dataclasses.replace(measurement, quiet=measurement.quiet or as_json)
    analysis = stagewise.run(
        recipe_of(task, changes),
        folder or Path("runs", task.replace(":", "-")),
        restricted=restricted,
        **measurement.arguments(),
    )
    show(analysis.stages, as_json, analysis.series.name)
    print(f"report: {analysis.report}", file=sys.stderr if as_json else sys.stdout)


run_app.command(ANY, help=f"Run a task from training to report: {', '.join(TASKS)}, or one's own as module:Class.")(
    command(run_task, models=True)
)


def audit(
    source: Origin,
    weights: Annotated[
        bool | None, typer.Option("--weights/--no-weights", help="read the weights too; from a hub only if asked for")
    ] = None,
    pairs: Annotated[
        str | None, typer.Option(help="a file of prompts, as `measure` takes it: say what a checkpoint costs on them")
    ] = None,
    *,
    opening: SeriesOptions,
    own_task: OwnTask = None,
    as_json: AsJson = False,
) -> None:
    """Look for missing, repeated, damaged or outlying checkpoints.

    The exit status is 1 if something is wrong.
    """
    if own_task:
        task_classes(own_task)  # which the record may name
    found = checkpoints.series.find(source, **opening.finding())
    chosen = checkpoints.only_chosen(found, opening.branch, opening.choice)
    weights = not chosen.remote if weights is None else weights
    if weights:
        _sources.agree_to_cost([chosen], opening.yes)
    result = stagewise.audit(chosen, weights=weights, architecture=opening.architecture)
    print(result.to_json() if as_json else result)
    if pairs is not None and not as_json:
        print(f"  {_sources.cost_of_pairs(source, DataOptions(**dataclasses.asdict(opening), pairs=pairs))}")
    if not as_json and (lacking := checkpoints.unmeasured_in_words(_sources.measured_folder(source))):
        print(f"  note: {lacking}")
    if not result.clean:
        raise typer.Exit(1)
