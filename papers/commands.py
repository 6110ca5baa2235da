"""The papers as commands of `stagewise run`, `cause` and `papers`, which pyproject.toml registers."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Setting = Annotated[str, typer.Option(help="small, for two cores, or paper")]
Workers = Annotated[int, typer.Option(help="processes, of one thread each")]
Quiet = Annotated[bool, typer.Option("--quiet", help="no progress bars")]
Data = Annotated[str | None, typer.Option(help="folder of WikiText-2 or WikiText-103; the hub if not given")]


def run_incremental(
    figure: Annotated[
        str | None,
        typer.Option(
            help="the paper's 1 to 19, 4L, 4R, B; or heads, blocks, draws, ends, generalisation, owners, regression, "
            "settings, theorems, widths"
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="all figures, one after another; resumes where it stopped")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="where runs go, which figures of a setting share; runs/incremental/SETTING if not given"),
    ] = None,
    setting: Setting = "small",
    seeds: Annotated[
        int | None,
        typer.Option(help="how many, from 0 on; if not given 3, of a whole transformer of the paper's size 1"),
    ] = None,
    restricted: Annotated[
        bool | None,
        typer.Option(help="whether to train restricted-context models for comparison; by default for figures 3 and 5"),
    ] = None,
    block: Annotated[
        bool, typer.Option("--block", help="2, 3, 12, 18, 19 (paper: 8, 9): the paper's own block, with dropout")
    ] = False,
    until: Annotated[
        int | None, typer.Option(help="the step to end runs at for now, a saved one; without it they resume")
    ] = None,
    workers: Workers = 2,
    quiet: Quiet = False,
) -> None:
    """Run the sweep behind a figure of Incremental Learning (arXiv 2602.19143), draw it and compare its numbers."""
    from stagewise.papers.incremental import command

    if every == (figure is not None):
        raise ValueError("give a figure, as in --figure 1, or --all for every one of them")
    if figure is None:
        if seeds is not None or restricted is not None or block or until is not None:
            raise ValueError(
                "--all has the seeds, the restricted-context models, the block and the steps of each figure"
            )
        command.make_all(setting, folder, workers=workers, progress=not quiet)
        return
    if seeds is not None and seeds < 1:
        raise ValueError(f"a figure takes at least one seed, got {seeds}")
    chosen = None if seeds is None else range(seeds)
    how: Any = {"restricted": restricted, "block": block, "until": until}
    how |= {"workers": workers, "progress": not quiet}
    command.make(figure, folder, setting, chosen, **how)


def run_scan_and_snap(
    figure: Annotated[
        str, typer.Option(help="the paper's figure: 3 to 12, or theorems, lemmas, tokens, orders, ratio, freezing")
    ] = "6",
    folder: Annotated[
        Path | None, typer.Option(help="where to write; runs/scan-and-snap/figure-N if not given")
    ] = None,
    setting: Annotated[str, typer.Option(help="7, 10, freezing: small, for minutes of a core, or paper")] = "small",
    seeds: Annotated[int | None, typer.Option(help="seeds of figures 5, 6, 7, 10, 11, 12, ratio, freezing")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="6, 11, 12 with new seeds in place of the replay")] = False,
    data: Annotated[
        str | None, typer.Option(help="7, 10, freezing: folder of WikiText-2 or WikiText-103; the hub if not given")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="7, 10, freezing: minibatches")] = None,
    layers: Annotated[int | None, typer.Option(help="7: layers, 1 for its upper row, 3 for its lower one")] = None,
    checkpoints: Annotated[
        int | None,
        typer.Option(
            help="7 (of its first seed), 10: checkpoints of a run at most, 47 MB each; 12 and none if not given"
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="7, 10, freezing: processes, of one thread each")] = 1,
    quiet: Quiet = False,
) -> None:
    """Make a figure of Scan and Snap, and print the published numbers beside ours."""
    from stagewise.papers.scan_and_snap import figures

    folder = folder or Path(f"runs/scan-and-snap/figure-{figure}")
    chosen: dict[str, Any] = {"seeds": seeds, "fresh": fresh, "data": data, "steps": steps, "layers": layers}
    chosen |= {"checkpoints": checkpoints, "workers": workers}
    figures.draw(figure, folder, setting=setting, **chosen, progress=not quiet)


def run_wikitext_baseline(
    folder: Annotated[
        Path, typer.Option(help="where to write, one folder for each seed; an interrupted run resumes")
    ] = Path("runs/wikitext-baseline"),
    data: Data = None,
    layers: Annotated[int, typer.Option(help="number of layers")] = 1,
    rate: Annotated[float, typer.Option(help="Adam's learning rate")] = 1e-3,
    steps: Annotated[int, typer.Option(help="minibatches")] = 1000,
    seeds: Annotated[int, typer.Option(help="how many, from 1 on, of the weights, as published, and of dropout")] = 1,
    checkpoints: Annotated[int, typer.Option(help="at most, 47 MB each, for `stagewise report`; 0 for none")] = 12,
    workers: Workers = 1,
    quiet: Quiet = False,
) -> None:
    """Train the WikiText model of Scan and Snap's released code by Adam; ten minutes of one core a seed."""
    from stagewise.papers.published import show
    from stagewise.papers.scan_and_snap._wikitext_trajectory import trajectories

    settings: dict[str, Any] = {"n_layers": layers, "rate": rate, "steps": steps, "seeds": seeds, "data": data}
    settings |= {"checkpoints": checkpoints, "workers": workers}
    result = trajectories(folder, **settings, progress=not quiet)
    show(result, folder / "wikitext-baseline")
    if checkpoints:
        print(f"checkpoints: `stagewise report {folder / 'seed=1'}` measures them")


def run_wikitext_repetition(
    folder: Annotated[
        Path, typer.Option(help="where to write, one folder for each run; an interrupted run resumes")
    ] = Path("runs/wikitext-repetition"),
    data: Data = None,
    share: Annotated[
        list[float] | None,
        typer.Option(
            help="share of windows with a repeated excerpt; may be given again; 0, 0.1, 0.2, 0.3, 0.5 if not given"
        ),
    ] = None,
    steps: Annotated[int, typer.Option(help="optimiser updates of a run")] = 5000,
    seeds: Annotated[int, typer.Option(help="number of seeds, from 0 on")] = 3,
    workers: Workers = 1,
    quiet: Quiet = False,
) -> None:
    """Train small transformers on WikiText-2 by the share of windows that repeat; eight minutes of one core a run."""
    from stagewise.papers.published import show
    from stagewise.papers.wikitext.repetition import SHARES, repetition

    settings: dict[str, Any] = {"seeds": seeds, "workers": workers, "steps": steps, "data": data}
    result = repetition(folder, shares=share or SHARES, **settings, progress=not quiet)
    show(result, folder / "wikitext-repetition")


def run_emergence(
    figure: Annotated[
        str,
        typer.Option(
            help="1, 2, 6 to 10, schedules: the toy model; 3, 11 to 15: regression; 4, 5, 16, 17, values, heads, "
            "repetition, fixed, embeddings, norms: recall"
        ),
    ] = "1",
    setting: Setting = "small",
    folder: Annotated[Path, typer.Option(help="where runs and figures go; an interrupted sweep resumes")] = Path(
        "runs/emergence"
    ),
    grid: Annotated[
        list[str] | None,
        typer.Option(
            help="other values for the runs, as in N_pairs=8,12: T, d, B, p, seed, N_pairs, N_tokens, batch, N_layers, "
            "N_heads, width"
        ),
    ] = None,
    budget: Annotated[int | None, typer.Option(help="steps of every run; what has not emerged is censored")] = None,
    workers: Annotated[int, typer.Option(help="processes that train at the same time")] = 2,
    quiet: Quiet = False,
) -> None:
    """Make a figure of "The emergence of sparse attention", and print the published numbers beside ours."""
    from stagewise.papers.emergence import figures as emergence
    from stagewise.papers.emergence._grids import read_axes
    from stagewise.sweeping import RunsFailed

    axes, bar = read_axes(grid or []), not quiet
    try:
        number = int(figure) if figure.isdigit() else figure
        emergence.run(number, setting, folder, grid=axes, budget=budget, workers=workers, progress=bar)
    except RunsFailed as failed:
        raise ValueError(str(failed)) from failed


def cause_samples(
    folder: Annotated[Path, typer.Argument(help="a run folder")],
    head: Annotated[str, typer.Option(help="as L1H0")],
    event: Annotated[
        int | None, typer.Option(help="number of a transition of the answer; by which the head gains most if not given")
    ] = None,
    start: Annotated[
        int | None, typer.Option("--from", help="first step of samples; the last checkpoint before it if not given")
    ] = None,
    stop: Annotated[
        int | None,
        typer.Option("--until", help="checkpoint of the attention; the first behind its middle if not given"),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Say what each training sample in front of a transition did to a head: exact derivatives through training."""
    from stagewise.papers.samples import attribute_samples, effects_in_words, table_of

    if (match := re.fullmatch(r"L(\d+)H(\d+)", head)) is None:
        raise ValueError(f"--head is one head, as in --head L1H0, got {head!r}")
    one = int(match[1]), int(match[2])
    found = attribute_samples(folder, one, event, start=start, stop=stop, progress=not quiet)
    print(*effects_in_words(one, found), sep="\n")
    print(f"all {len(found.table)} samples: {folder / table_of(one)}")


COMMANDS: dict[str, Callable[..., None]] = {
    "incremental": run_incremental,
    "scan-and-snap": run_scan_and_snap,
    "wikitext-baseline": run_wikitext_baseline,
    "wikitext-repetition": run_wikitext_repetition,
    "emergence": run_emergence,
}

app = typer.Typer(help="Figures of the papers beside their published numbers.", no_args_is_help=True)
for _name, _function in COMMANDS.items():
    app.command(_name)(_function)
