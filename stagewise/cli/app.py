"""The command line: a thin face of the verbs."""

import functools
import sys
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from stagewise.cli.audit import audit
from stagewise.cli.densify import densify
from stagewise.cli.findings import compare, lineage, stages
from stagewise.cli.intervene import intervene
from stagewise.cli.llc import llc
from stagewise.cli.names import run_folder_named
from stagewise.cli.options import (
    Branch,
    Config,
    Device,
    DtypeName,
    Heads,
    Layers,
    Memory,
    ModelConfig,
    MoreProbes,
    Only,
    Origin,
    Origins,
    Out,
    OwnTask,
    Preset,
    Quiet,
    RelationNames,
    RunFolder,
    Seed,
    SequenceCount,
    Settings,
    Steps,
    StepsColumn,
    TextFiles,
    TokenFile,
    TokenizerName,
    Without,
    Workers,
    measuring,
    one_thread,
    reported_errors,
)
from stagewise.cli.places import each_run, measure_run_folder, opened_source, report_on_seeds
from stagewise.cli.recipes import Choice, recipe_in, recipe_of
from stagewise.cli.run import run_app
from stagewise.cli.sweep import sweep
from stagewise.cli.trajectory import trajectory
from stagewise.plain_text import file_part

app = typer.Typer(
    help="In which stages did a model's attention heads learn what they do?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(run_app, name="run")
for command in (audit, stages, lineage, compare, trajectory, llc, densify, intervene, sweep):
    app.command()(command)


@app.command()
def train(
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK|FOLDER", help="a task, or the run folder to resume; ./NAME where it has a task's name"
        ),
    ] = None,
    folder: RunFolder = None,
    record: Annotated[
        Path | None, typer.Option("--from", help="a run.json: repeat its run in --folder, from this record alone")
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
    """Train a preset of a task into a run folder, resume the run in a folder, or repeat a run from its record."""
    with reported_errors():
        one_thread()
        from stagewise.training import train as train_recipe

        choice = Choice(preset, seed, heads, layers, steps, config, settings)
        if record is not None and task is None:
            recipe = recipe_in(record, choice, own_task or ())
            folder = folder or Path("runs", f"{file_part(record.absolute().parent.name)}-again")
        elif task is None or record is not None:
            raise ValueError("give a task or a run folder, or a run.json with --from and a --folder for the new run")
        elif (run := run_folder_named(task)) is not None:
            recipe, folder = recipe_in(run, choice, own_task or ()), run
        else:
            recipe, folder = recipe_of(task, choice), folder or Path("runs", task.replace(":", "-"))
        print(train_recipe(recipe, folder, progress=not quiet, device=device, dtype=cast(Any, dtype)))


@app.command()
def measure(
    source: Origin,
    out: Out = None,
    architecture: ModelConfig = None,
    branch: Branch = None,
    tokens: TokenFile = None,
    relation: RelationNames = None,
    text: TextFiles = None,
    tokenizer: TokenizerName = None,
    sequences: SequenceCount = None,
    own_task: OwnTask = None,
    probe: MoreProbes = None,
    only: Only = None,
    without: Without = None,
    workers: Workers = 1,
    memory: Memory = None,
    device: Device = "cpu",
    dtype: DtypeName = "float32",
    quiet: Quiet = False,
) -> None:
    """Run the default probes, and others, on every checkpoint of a run folder or any source; write the table."""
    with reported_errors():
        one_thread()
        from stagewise.checkpoints.run_folder import RUN, TABLE, table_file

        how = {**measuring(probe, only, without, workers, memory, quiet, device, dtype), "sequences": sequences}
        if not (text or tokens) and (folder := Path(source)).joinpath(RUN).exists():
            measure_run_folder(folder, own_task or (), how)
        else:
            from stagewise.analysis import folder_of, measured
            from stagewise.findings.home import home_in

            series, task = opened_source(
                source, architecture, own_task, (tokens, relation or (), text, tokenizer), branch
            )
            folder = out or folder_of(series)
            faults = measured(series, folder, task=task, **how)[0]  # and not its table, which would be kept
            if (home := home_in(folder)) is not None:
                print(home)
            print(faults)
        print(f"{len(table_file(folder))} rows: {folder / TABLE}")


@app.command()
def report(
    sources: Origins,
    out: Out = None,
    steps: StepsColumn = None,
    architecture: ModelConfig = None,
    branch: Branch = None,
    tokens: TokenFile = None,
    relation: RelationNames = None,
    text: TextFiles = None,
    tokenizer: TokenizerName = None,
    sequences: SequenceCount = None,
    own_task: OwnTask = None,
    only: Only = None,
    without: Without = None,
    workers: Workers = 1,
    memory: Memory = None,
    device: Device = "cpu",
    dtype: DtypeName = "float32",
    quiet: Quiet = False,
) -> None:
    """Write report.html and its figures; first measure a source that was not measured. Several give one report."""
    with reported_errors():
        runs = each_run(sources, out, steps)
        if len(runs) > len(sources) == 1:
            out = Path(runs[0]).parents[1]
        sources, source, data = runs, runs[0], (tokens, relation or (), text, tokenizer)

        def how() -> dict[str, Any]:
            options = measuring(None, only, without, workers, memory, quiet, device, dtype)  # imports torch
            return {**options, "sequences": sequences}

        if len(sources) > 1:
            opened = functools.partial(opened_source, architecture=architecture, own=own_task, data=data, branch=branch)
            print(report_on_seeds(sources, out, opened, how(), own=own_task or (), anew=bool(text or tokens)))
            return
        from stagewise.checkpoints.run_folder import RUN, TABLE
        from stagewise.processes import cores
        from stagewise.reporting.page import report as write_report

        folder = Path(source)
        run, measured = (folder / RUN).exists(), (folder / TABLE).exists() and sequences is None
        if text or tokens or not (run or measured):
            one_thread()
            from stagewise.analysis import analyse

            series, task = opened_source(source, architecture, own_task, data, branch)
            print(analyse(series, out, task=task, **how()))
            return
        if not measured:
            measure_run_folder(folder, own_task or (), how())
        elif only or without:
            why = "was measured before, and all of that is shown: --only and --without choose for `stagewise measure`"
            print(f"{source} {why}", file=sys.stderr)
        print(write_report(folder, workers=cores()))
