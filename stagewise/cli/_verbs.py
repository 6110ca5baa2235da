"""`stagewise train`, `measure` and `report`."""

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from stagewise.cli import _options as options
from stagewise.cli._names import run_folder_named
from stagewise.cli._recipes import recipe_in, recipe_of
from stagewise.cli._sources import each_run, measure_each, measured_first, name_causes_of, opened_source
from stagewise.plain_text import file_part


def train(
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK|FOLDER", help="a task, or the run folder to resume; ./NAME where it has a task's name"
        ),
    ] = None,
    *,
    folder: options.RunFolder = None,
    record: Annotated[
        Path | None, typer.Option("--record", help="a run.json: repeat its run in --folder, from this record alone")
    ] = None,
    changes: options.RecipeOptions,
    own_task: options.OwnTask = None,
    device: options.Device = "cpu",
    dtype: options.DtypeName = "float32",
    quiet: options.Quiet = False,
) -> None:
    """Train a preset of a task into a run folder, resume the run in a folder, or repeat a run from its record."""
    from stagewise.training import train as train_recipe

    if record is not None and task is None:
        recipe = recipe_in(record, changes, own_task or ())
        folder = folder or Path("runs", f"{file_part(record.absolute().parent.name)}-again")
    elif task is None or record is not None:
        raise ValueError("give a task or a run folder, or a run.json with --record and a --folder for the new run")
    elif (run := run_folder_named(task)) is not None:
        recipe, folder = recipe_in(run, changes, own_task or ()), run
    else:
        recipe, folder = recipe_of(task, changes), folder or Path("runs", task.replace(":", "-"))
    print(train_recipe(recipe, folder, progress=not quiet, device=device, dtype=cast(Any, dtype)))


def measure(
    source: options.Origin,
    *,
    out: options.Out = None,
    data: options.DataOptions,
    sequences: options.SequenceCount = None,
    probe: options.MoreProbes = None,
    chosen: options.ProbeOptions,
    executor: options.ExecutorName = None,
    passes: options.PassOptions,
) -> None:
    """Run the default probes, and others, on every checkpoint of a run folder or any source; write the table."""
    from stagewise.checkpoints.run_folder import TABLE, table_file
    from stagewise.saved_findings import familiarity_in

    measurement = options.Measurement(passes, chosen, probe, sequences, executor)
    opened = opened_source(source, data, out, measurement)
    folder = opened.folder
    [faults] = measure_each([opened], measurement)
    if faults is not None:
        if (familiarity := familiarity_in(folder)) is not None:
            print(familiarity)
        print(faults)
    print(f"{len(table_file(folder))} rows: {folder / TABLE}")


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
    sequences: options.SequenceCount = None,
    chosen: options.ProbeOptions,
    executor: options.ExecutorName = None,
    light: Annotated[
        bool, typer.Option("--light", help="write a copy beside it, a tenth of its size, to send: report-light.html")
    ] = False,
    axis: options.Axis = "steps",
    passes: options.PassOptions,
) -> None:
    """Write report.html and its figures; first measure a source that was not measured. Several give one report."""
    from stagewise.reporting._light import light_copy
    from stagewise.reporting._seeds import report_seeds

    runs = each_run(sources, out, step_column)
    measurement = options.Measurement(passes, chosen, sequences=sequences, executor=executor)
    measured = measured_first(runs, data, measurement, out if len(runs) == 1 else None)
    if len(runs) > 1:
        folders, first = [folder for folder, _ in measured], Path(runs[0])
        name_causes_of(folders, cause)
        place = out or Path("runs", f"{file_part(first.name)}-and-{len(runs) - 1}-more")
        place = first.parents[1] if len(sources) == 1 else place
        seeds = report_seeds(folders, place, axis, data.tokens_per_step)
        print(seeds)
        page = seeds.report
    else:
        [(folder, analysis)] = measured
        name_causes_of([folder], cause)
        if analysis is not None and not cause and axis == "steps":
            print(analysis)
            page = analysis.report
        else:
            page = _report_of(folder, axis, data.tokens_per_step)
    if light:
        print(f"light: {light_copy(page)}")


def _report_of(folder: Path, axis: str, tokens_per_step: int | None) -> Path:
    """Write the report of a measured folder, and print its answer and where it is."""
    from stagewise.processes import cores
    from stagewise.reporting._measured import axis_in
    from stagewise.reporting.page import report as write_report
    from stagewise.saved_findings import load_stages
    from stagewise.words._times import written_on

    page = write_report(folder, workers=cores(), axis=axis, tokens_per_step=tokens_per_step)
    with written_on(axis_in(folder, axis, tokens_per_step)):
        if (stages := load_stages(folder)) is not None:
            print(" ".join(stages.answer))
    print(f"report: {page}")
    return page
