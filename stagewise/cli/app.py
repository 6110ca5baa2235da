"""The command line: a thin face of the verbs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stagewise.cli.options import (
    AsJson,
    Config,
    Folder,
    Heads,
    Origin,
    Out,
    Preset,
    Quiet,
    Seed,
    Settings,
    Steps,
    TextFiles,
    TokenizerName,
    markov_recipe,
    one_thread,
    read_recipe,
    reported_errors,
    show,
)
from stagewise.cli.run import run_app

if TYPE_CHECKING:
    from stagewise.analysis import Analysis

app = typer.Typer(
    help="In which stages did a model's attention heads learn what they do?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(run_app, name="run")


@app.command()
def train(
    folder: Folder,
    preset: Preset = "minimal",
    seed: Seed = 0,
    heads: Heads = 3,
    steps: Steps = None,
    config: Config = None,
    settings: Settings = None,
    quiet: Quiet = False,
) -> None:
    """Train a preset of the Markov chain into a run folder, or go on with the run in it."""
    with reported_errors():
        one_thread()
        from stagewise.training import train as train_recipe

        series = train_recipe(markov_recipe(preset, seed, heads, steps, config, settings), folder, progress=not quiet)
        print(series)


@app.command()
def measure(
    source: Origin, out: Out = None, text: TextFiles = None, tokenizer: TokenizerName = None, quiet: Quiet = False
) -> None:
    """Run every probe on every checkpoint of a run folder, or of any other source, and write the table."""
    with reported_errors():
        one_thread()
        from stagewise.checkpoints.run_folder import RUN, TABLE
        from stagewise.experiments.incremental import markov

        if not text and (folder := Path(source)).joinpath(RUN).exists():
            table = markov.measure_run(read_recipe(folder), folder, progress=not quiet)
        else:
            from stagewise.analysis import folder_of, measured
            from stagewise.checkpoints.series import open_series
            from stagewise.texts import asked_task

            series = open_series(source)
            folder = out or folder_of(series)
            task = asked_task(series, text, tokenizer)
            found, table = measured(series, folder, task=task, progress=not quiet)
            print(found)
        print(f"{len(table)} rows: {folder / TABLE}")


@app.command()
def audit(
    source: Origin,
    weights: Annotated[
        bool | None, typer.Option("--weights/--no-weights", help="read the weights too; from a hub only if asked for")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look for missing, repeated, damaged and outlying checkpoints; exit status 1 where something is wrong."""
    with reported_errors():
        from stagewise.checkpoints.audit import audit as audit_source
        from stagewise.checkpoints.series import find

        found = find(source)
        result = audit_source(found, weights=not found.remote if weights is None else weights)
        print(result.to_json() if as_json else result)
    if not result.clean:
        raise typer.Exit(1)


@app.command()
def stages(folder: Folder, as_json: AsJson = False) -> None:
    """Find the stages in a run folder's table and print them."""
    with reported_errors():
        from stagewise.checkpoints.run_folder import read_table
        from stagewise.detection.stages import find_stages, stages_of

        table = read_table(folder)
        show(stages_of(table, folder=folder) or find_stages(table), as_json)


@app.command()
def report(
    source: Origin, out: Out = None, text: TextFiles = None, tokenizer: TokenizerName = None, quiet: Quiet = False
) -> None:
    """Write report.html and its figures anew; measure first where a source was not measured yet."""
    with reported_errors():
        one_thread()
        from stagewise.checkpoints.run_folder import RUN, TABLE
        from stagewise.reporting.page import report as write_report

        folder = Path(source)
        measured = (folder / RUN).exists() or (folder / TABLE).exists()
        anew = bool(text) or not measured
        print(_analyse(source, out, text, tokenizer, quiet) if anew else write_report(folder))


def _analyse(source: str, out: Path | None, text: list[Path] | None, tokenizer: str | None, quiet: bool) -> "Analysis":
    from stagewise.analysis import analyse
    from stagewise.checkpoints.series import open_series

    return analyse(open_series(source), out, text=text, tokenizer=tokenizer, progress=not quiet)
