"""The command line: a thin face of the verbs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from stagewise.cli.names import task_class
from stagewise.cli.options import (
    AsJson,
    Config,
    Device,
    DtypeName,
    Folder,
    Heads,
    Layers,
    Memory,
    ModelConfig,
    MoreProbes,
    Only,
    Origin,
    Out,
    OwnTask,
    Preset,
    Quiet,
    RunFolder,
    Seed,
    Settings,
    Steps,
    TextFiles,
    TokenizerName,
    Without,
    Workers,
    measuring,
    one_thread,
    reported_errors,
    show,
)
from stagewise.cli.recipes import Choice, recipe_in, recipe_of
from stagewise.cli.run import run_app
from stagewise.cli.sweep import sweep

if TYPE_CHECKING:
    from stagewise.analysis import Analysis
    from stagewise.checkpoints.audit import Deep
    from stagewise.checkpoints.sources import Source
    from stagewise.task import AbstractTask

app = typer.Typer(
    help="In which stages did a model's attention heads learn what they do?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(run_app, name="run")
app.command()(sweep)


@app.command()
def train(
    task: Annotated[
        str | None, typer.Argument(metavar="TASK|FOLDER", help="a task, or the run folder to resume")
    ] = None,
    folder: RunFolder = None,
    record: Annotated[
        Path | None, typer.Option("--from", help="a run.json: make its run again in --folder, from this record alone")
    ] = None,
    preset: Preset = None,
    seed: Seed = None,
    heads: Heads = None,
    layers: Layers = None,
    steps: Steps = None,
    config: Config = None,
    settings: Settings = None,
    own_task: OwnTask = None,
    device: Device = "cpu",
    dtype: DtypeName = "float32",
    quiet: Quiet = False,
) -> None:
    """Train a preset of a task into a run folder, resume the run in a folder, or make a run again from its record."""
    with reported_errors():
        one_thread()
        from stagewise.checkpoints.run_folder import RUN
        from stagewise.training import train as train_recipe

        choice = Choice(preset, seed, heads, layers, steps, config, settings)
        if record is not None and task is None:
            recipe = recipe_in(record, choice, own_task or ())
            folder = folder or Path("runs", f"{record.absolute().parent.name}-again")
        elif task is None or record is not None:
            raise ValueError("give a task or a run folder, or a run.json with --from and a --folder for the new run")
        elif (Path(task) / RUN).exists():
            recipe, folder = recipe_in(Path(task), choice, own_task or ()), Path(task)
        else:
            recipe, folder = recipe_of(task, choice), folder or Path("runs", task.replace(":", "-"))
        print(train_recipe(recipe, folder, progress=not quiet, device=device, dtype=cast(Any, dtype)))


@app.command()
def measure(
    source: Origin,
    out: Out = None,
    architecture: ModelConfig = None,
    text: TextFiles = None,
    tokenizer: TokenizerName = None,
    own_task: OwnTask = None,
    probe: MoreProbes = None,
    only: Only = None,
    without: Without = None,
    workers: Workers = 1,
    memory: Memory = None,
    quiet: Quiet = False,
) -> None:
    """Run the default probes, and further ones, on every checkpoint of a run folder or any source; write the table."""
    with reported_errors():
        one_thread()
        from stagewise.checkpoints.run_folder import RUN, TABLE, read_table

        how = measuring(probe, only, without, workers, memory, quiet)
        if not text and (folder := Path(source)).joinpath(RUN).exists():
            from stagewise.analysis import measure_run

            recipe = recipe_in(folder, tasks=own_task or ())
            measure_run(recipe, folder, **how)
        else:
            from stagewise.analysis import folder_of, measured
            from stagewise.checkpoints.series import open_series
            from stagewise.tasks.text import asked_task

            series = open_series(source, architecture=architecture)
            folder = out or folder_of(series)
            task = asked_task(series, text, tokenizer) or _own_task(own_task)
            faults, _ = measured(series, folder, task=task, **how)
            print(faults)
        print(f"{len(read_table(folder))} rows: {folder / TABLE}")


def _own_task(names: list[str] | None) -> "AbstractTask | None":
    """Return the one task whose probe batch checkpoints from elsewhere are measured on, with its default arguments."""
    if not names:
        return None
    if len(names) > 1:
        raise ValueError(f"checkpoints are measured on one task, got {', '.join(names)}")
    return task_class(names[0])()


@app.command()
def audit(
    source: Origin,
    weights: Annotated[
        bool | None, typer.Option("--weights/--no-weights", help="read the weights too; from a hub only if asked for")
    ] = None,
    deep: Annotated[bool, typer.Option("--deep", help="run each checkpoint on one batch too, and compare")] = False,
    architecture: ModelConfig = None,
    own_task: OwnTask = None,
    as_json: AsJson = False,
) -> None:
    """Look for missing, repeated, damaged and outlying checkpoints; exit status 1 where something is wrong."""
    with reported_errors():
        from stagewise.checkpoints.audit import audit as audit_source
        from stagewise.checkpoints.series import find

        checkpoints = find(source)
        given = _deep(source, checkpoints, architecture, own_task) if deep else None
        weights = (deep or not checkpoints.remote) if weights is None else weights
        result = audit_source(checkpoints, weights=weights, deep=given)
        print(result.to_json() if as_json else result)
    if not result.clean:
        raise typer.Exit(1)


def _deep(source: str, checkpoints: "Source", architecture: str | None, own_task: list[str] | None) -> "Deep":
    """Return what checkpoints are run on: their run's own task, the one that is named, or repeated random tokens."""
    from stagewise.checkpoints.audit import Deep
    from stagewise.checkpoints.run_folder import RUN
    from stagewise.checkpoints.sources import architecture_of
    from stagewise.tasks import RepeatedTokens

    models = architecture_of(checkpoints, architecture)
    if Path(source, RUN).exists():
        task = recipe_in(Path(source), tasks=own_task or ()).task
    else:
        task = _own_task(own_task) or RepeatedTokens.for_model(models)
    n = max(2, min(64, 2**22 // (task.n_ctx * int(models.config["d_vocab"]))))
    return Deep(models, task.probe_batch(n, seed=0).complete())


@app.command()
def stages(folder: Folder, as_json: AsJson = False) -> None:
    """Find the stages in a run folder's table and print them."""
    with reported_errors():
        from stagewise.checkpoints.run_folder import table_file
        from stagewise.detection.stages import stages_of

        show(stages_of(folder), as_json, next(iter(table_file(folder).outline["run"]), ""))


@app.command()
def report(
    source: Origin,
    out: Out = None,
    architecture: ModelConfig = None,
    text: TextFiles = None,
    tokenizer: TokenizerName = None,
    own_task: OwnTask = None,
    only: Only = None,
    without: Without = None,
    workers: Workers = 1,
    memory: Memory = None,
    quiet: Quiet = False,
) -> None:
    """Write report.html and its figures anew; measure first where a source was not measured yet."""
    with reported_errors():
        from stagewise.checkpoints.run_folder import RUN, TABLE
        from stagewise.reporting.page import report as write_report

        folder = Path(source)
        run, measured = (folder / RUN).exists(), (folder / TABLE).exists()
        if text or not (run or measured):
            how = measuring(None, only, without, workers, memory, quiet)
            print(_analysis(source, out, text, tokenizer, own_task, architecture, how))
            return
        if not measured:
            one_thread()
            from stagewise.analysis import measure_run

            recipe = recipe_in(folder, tasks=own_task or ())
            measure_run(recipe, folder, **measuring(None, only, without, workers, memory, quiet))
        print(write_report(folder))


def _analysis(
    source: str,
    out: Path | None,
    text: list[Path] | None,
    tokenizer: str | None,
    own_task: list[str] | None,
    architecture: str | None,
    how: dict[str, Any],
) -> "Analysis":
    one_thread()
    from stagewise.analysis import analyse
    from stagewise.checkpoints.series import open_series
    from stagewise.tasks.text import asked_task

    series = open_series(source, architecture=architecture)
    task = asked_task(series, text, tokenizer) or _own_task(own_task)
    return analyse(series, out, task=task, **how)
