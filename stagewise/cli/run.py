"""The command line's experiments: `stagewise run`, any task from training to report, and a command a paper."""

import sys
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from stagewise.cli.names import TASKS
from stagewise.cli.options import (
    AsJson,
    Config,
    ContextList,
    Device,
    DtypeName,
    Heads,
    Layers,
    Memory,
    MoreProbes,
    Only,
    Preset,
    Quiet,
    Restricted,
    RunFolder,
    Seed,
    Settings,
    Steps,
    Without,
    Workers,
    measuring,
    one_thread,
    read_contexts,
    reported_errors,
    show,
)
from stagewise.cli.recipes import Choice, recipe_of
from stagewise.cli.settings import changed, read_settings

ANY = "TASK"
"""The command that stands for every name that is not a command itself."""


class TaskGroup(TyperGroup):
    """A group of commands in which any other name is that of a task."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of the first argument, or the one that runs any task, which gets that argument too."""
        name = args[0]
        if name.startswith("-") or self.get_command(ctx, name) is not None:
            return super().resolve_command(ctx, args)
        return name, self.get_command(ctx, ANY), args


run_app = typer.Typer(cls=TaskGroup, help="Run a task or a paper's experiment, to the report.", no_args_is_help=True)


@run_app.command(ANY, help=f"Run a task from training to report: {', '.join(TASKS)}, or one's own as module:Class.")
def run_task(
    task: Annotated[str, typer.Argument(metavar=" ", hidden=True)],
    folder: RunFolder = None,
    preset: Preset = None,
    seed: Seed = None,
    heads: Heads = None,
    layers: Layers = None,
    steps: Steps = None,
    config: Config = None,
    settings: Settings = None,
    probe: MoreProbes = None,
    only: Only = None,
    without: Without = None,
    restricted: Restricted = None,
    contexts: ContextList = None,
    device: Device = "cpu",
    dtype: DtypeName = "float32",
    workers: Workers = 1,
    memory: Memory = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Train a preset of the task, probe every checkpoint, find the stages, write the report."""
    with reported_errors():
        one_thread()
        from stagewise.experiments.presets import run

        recipe = recipe_of(task, Choice(preset, seed, heads, layers, steps, config, settings))
        analysis = run(
            recipe,
            folder or Path("runs", task.replace(":", "-")),
            restricted=read_contexts(restricted, contexts),
            **measuring(probe, only, without, workers, memory, quiet or as_json),
            device=device,
            dtype=cast(Any, dtype),
        )
        show(analysis.stages, as_json, analysis.series.name)
        print(f"report: {analysis.report}", file=sys.stderr if as_json else sys.stdout)


@run_app.command("incremental")
def run_incremental(
    figure: Annotated[str, typer.Option(help="of the paper: 1 to 19, 4L, 4R, B; heads: the head-count sweep")],
    folder: Annotated[
        Path | None,
        typer.Option(help="where runs go, which figures of a setting share; runs/incremental/SETTING if not given"),
    ] = None,
    setting: Annotated[str, typer.Option(help="small, for two cores, or paper")] = "small",
    seeds: Annotated[
        int | None, typer.Option(help="how many, from 0 on; where not given, 3 of a sweep and of 8, 1 of the others")
    ] = None,
    restricted: Annotated[
        bool, typer.Option("--restricted", help="train restricted-context models to compare with; 3 and 5 always do")
    ] = False,
    workers: Annotated[int, typer.Option(help="processes, of one thread each")] = 1,
    quiet: Quiet = False,
) -> None:
    """Run the sweep behind a figure of Incremental Learning (arXiv 2602.19143), summarise it and draw it."""
    with reported_errors():
        one_thread()
        from stagewise.experiments.incremental import command as incremental_script

        chosen = None if seeds is None else range(seeds)
        incremental_script.make(
            figure, folder, setting, chosen, restricted=restricted, workers=workers, progress=not quiet
        )


@run_app.command("scan-and-snap")
def run_scan_and_snap(
    figure: Annotated[int, typer.Option(help="the paper's figure: 4, 5, 6 or 7")] = 6,
    folder: Annotated[
        Path | None, typer.Option(help="where to write; runs/scan-and-snap/figure-N if not given")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="number of seeds of figures 5 and 6")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="figure 6 with new seeds in place of the replay")] = False,
    data: Annotated[str | None, typer.Option(help="figure 7: folder of WikiText-2; the hub if not given")] = None,
    steps: Annotated[int | None, typer.Option(help="figure 7: minibatches")] = None,
    quiet: Quiet = False,
) -> None:
    """Train the one-layer models of Scan and Snap and draw one of its figures, with its tables."""
    with reported_errors():
        one_thread()
        from stagewise.experiments.scan_and_snap import figures as scan_and_snap_figures

        folder = folder or Path(f"runs/scan-and-snap/figure-{figure}")
        settings: dict[str, Any] = {"seeds": seeds, "fresh": fresh, "data": data, "steps": steps}
        print(scan_and_snap_figures.draw(figure, folder, **settings, progress=not quiet))
        print(f"tables and pictures: {folder}")


@run_app.command("wikitext")
def run_wikitext(
    folder: Annotated[Path, typer.Option(help="the run folder; an interrupted run in it resumes")] = Path(
        "runs/wikitext"
    ),
    data: Annotated[
        str | None, typer.Option(help="folder of WikiText-2; STAGEWISE_WIKITEXT, or the hub, if not given")
    ] = None,
    layers: Annotated[int, typer.Option(help="number of layers, 1 to 4")] = 2,
    mlp: Annotated[bool, typer.Option("--mlp", help="with MLPs; attention only if not given")] = False,
    tokenizer: Annotated[str, typer.Option(help="how the text is tokenised: bpe, plain or basic_english")] = "bpe",
    vocab_size: Annotated[int, typer.Option(help="size of the vocabulary")] = 1024,
    length: Annotated[int, typer.Option(help="positions of a window")] = 64,
    repeating: Annotated[
        float,
        typer.Option(help="share of training windows that repeat an excerpt; 0 leaves the text unchanged"),
    ] = 0.3,
    steps: Annotated[int, typer.Option(help="optimiser updates")] = 5000,
    seed: Annotated[int, typer.Option(help="of the initial weights, the data and the evaluation")] = 0,
    settings: Settings = None,
    probe: MoreProbes = None,
    only: Only = None,
    without: Without = None,
    restricted: Restricted = None,
    contexts: ContextList = None,
    workers: Workers = 1,
    memory: Memory = None,
    quiet: Quiet = False,
) -> None:
    """Train a small transformer on WikiText-2, probe every checkpoint, write the report; minutes of one core."""
    with reported_errors():
        one_thread()
        from stagewise.experiments import wikitext
        from stagewise.experiments.presets import run

        sizes: dict[str, Any] = {"tokenizer": tokenizer, "vocab_size": vocab_size, "length": length, "steps": steps}
        recipe = wikitext.recipe(layers, attn_only=not mlp, repeating=repeating, seed=seed, data=data, **sizes)
        analysis = run(
            changed(recipe, read_settings(settings or [])),
            folder,
            restricted=read_contexts(restricted, contexts),
            **measuring(probe, only, without, workers, memory, quiet),
        )
        print(f"report: {analysis.report}")


@run_app.command("wikitext-baseline")
def run_wikitext_baseline(
    folder: Annotated[Path, typer.Option(help="where to write; an interrupted run in it resumes")] = Path(
        "runs/wikitext-baseline"
    ),
    data: Annotated[str | None, typer.Option(help="folder of WikiText-2; the hub if not given")] = None,
    layers: Annotated[int, typer.Option(help="number of layers")] = 1,
    rate: Annotated[float, typer.Option(help="Adam's learning rate")] = 1e-3,
    steps: Annotated[int, typer.Option(help="minibatches")] = 1000,
    seed: Annotated[int, typer.Option(help="of the weights, as published, and of dropout")] = 1,
    quiet: Quiet = False,
) -> None:
    """Train the WikiText model of Scan and Snap's released code by Adam; ten minutes of one core."""
    with reported_errors():
        one_thread()
        from stagewise.experiments.scan_and_snap.wikitext_trajectory import trajectory

        settings: dict[str, Any] = {"n_layers": layers, "rate": rate, "steps": steps, "seed": seed, "data": data}
        print(trajectory(folder, **settings, progress=not quiet))
        print(f"table: {folder / 'trajectory.csv'}")


@run_app.command("emergence")
def run_emergence(
    figure: Annotated[
        int, typer.Option(help="1, 2: the toy model; 3: regression; 4, 5: recall; 17: one recall model, with a report")
    ] = 1,
    setting: Annotated[str, typer.Option(help="small, for two cores, or paper")] = "small",
    folder: Annotated[Path, typer.Option(help="where runs and figures go; an interrupted sweep resumes")] = Path(
        "runs/emergence"
    ),
    grid: Annotated[
        list[str] | None,
        typer.Option(help="other values for the runs, as in N_pairs=8,12: T, d, B, p, N_pairs, N_tokens or seed"),
    ] = None,
    budget: Annotated[int | None, typer.Option(help="steps of every run; what has not emerged is censored")] = None,
    workers: Annotated[int, typer.Option(help="processes that train at the same time")] = 2,
    quiet: Quiet = False,
) -> None:
    """Make a figure of "The emergence of sparse attention", and print the published numbers beside ours."""
    with reported_errors():
        one_thread()
        from stagewise.experiments.emergence import figures as emergence
        from stagewise.experiments.emergence.grids import read_axes
        from stagewise.sweeping import RunsFailed

        axes, bar = read_axes(grid or []), not quiet
        try:
            result = emergence.run(figure, setting, folder, grid=axes, budget=budget, workers=workers, progress=bar)
        except RunsFailed as failed:
            raise ValueError(str(failed)) from failed
        print(emergence.in_words(result.numbers))
        print(f"figure: {emergence.figure_path(folder, figure, setting)}")
        if result.report is not None:
            print(f"report: {result.report}")
