"""Make a figure of incremental learning, or all, in one call: what the command does."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stagewise.papers.incremental._draws import figure_draws
from stagewise.papers.incremental._ends import figure_ends
from stagewise.papers.incremental._figures import draw, measured_runs
from stagewise.papers.incremental._flow import figure_10, figure_theorems
from stagewise.papers.incremental._generalisation import figure_generalisation
from stagewise.papers.incremental._later_stages import figure_regression
from stagewise.papers.incremental._numbers import figure_numbers
from stagewise.papers.incremental._owners import figure_owners
from stagewise.papers.incremental._runs import run_figure
from stagewise.papers.incremental._settings import figure_settings
from stagewise.papers.incremental._widths import figure_widths
from stagewise.papers.incremental.recipes import FIGURES, runs
from stagewise.papers.published import Result, number, say_cost, show, table_of

FLOWS: dict[str, Callable[[], Result]] = {
    "10": figure_10,
    "theorems": figure_theorems,
    "widths": figure_widths,
    "settings": figure_settings,
    "draws": figure_draws,
}
"""The figures that train no transformer: of the theory, released settings, and levels over draws of the chain."""

GENERALISATION, REGRESSION, ENDS, OWNERS = "generalisation", "regression", "ends", "owners"
"""Longer sequences and other chains, the flow beside a transformer, ends of stages by the draw of the chain, and in
which order groups come to have a head."""

OTHERS: dict[str, Callable[..., Result]] = {
    GENERALISATION: figure_generalisation,
    ENDS: figure_ends,
    OWNERS: figure_owners,
    REGRESSION: lambda folder, setting, seeds, **how: figure_regression(folder, seeds, **how),
}

COSTS: dict[str, dict[str, str]] = {
    "small": {
        **dict.fromkeys(("1", "6", "7", "8", "9", "13", "14", "16", "17", "B"), "two minutes"),
        **dict.fromkeys(("2", "5", "11", "15", REGRESSION, ENDS, OWNERS), "five minutes"),
        **dict.fromkeys(("3", "4L", "4R", "12", "18", "19", "heads", "blocks", GENERALISATION), "ten minutes"),
    },
    "paper": {
        **dict.fromkeys(("6", "7", "13", "14", "B"), "ten minutes"),
        **dict.fromkeys(("16", "17"), "a quarter of an hour"),
        **dict.fromkeys(("1", "4L", "4R", "15", ENDS, OWNERS), "half an hour"),
        REGRESSION: "five minutes",
        **dict.fromkeys(("2", "3", "5", "8", "9", "11", "blocks"), "one to two hours"),
        **dict.fromkeys(("12", "18", "19", GENERALISATION), "many hours"),
    },
}
"""The approximate time of a figure that trains, by setting, with its own seeds: partly estimated from the others."""


def make(
    figure: str,
    folder: Path | None = None,
    setting: str = "small",
    seeds: Sequence[int] | None = None,
    *,
    restricted: bool | None = None,
    block: bool = False,
    until: int | None = None,
    workers: int = 1,
    progress: bool = True,
) -> Path:
    """Run a figure's experiments, draw it, print its numbers beside the paper's and where all is; return the picture's.

    Args:
        figure: one of FIGURES, or of FLOWS: "10", or "theorems", Proposition 1 and Theorems 1, 3, 4; "4l" is "4L"; or
            "generalisation", "regression", "ends" or "owners".
        folder: where the runs go, which the figures of a setting share; None takes runs/incremental/SETTING.
        setting: "small" or "paper".
        seeds: of everything; None takes those of `recipes.seeds_of`.
        restricted: whether to train restricted-context baselines; None trains them where the figure shows them.
        block: the paper's own block in place of TransformerLens's, in figures of the whole transformer.
        until: the step to end runs at for now, one that is saved; the same call without it resumes them.
        workers: processes, of one thread each.
        progress: show bars.

    Raises:
        ValueError: there is no such figure or setting, a figure without such a transformer is asked for with `block`,
            one that has no such runs with `until`, or a run folder belongs to another recipe.
    """
    known = {name.lower(): name for name in (*FIGURES, *FLOWS, *OTHERS)}
    if figure.lower() not in known:
        raise ValueError(f"there is no figure {figure} here; there are {', '.join(known.values())}")
    figure, folder = known[figure.lower()], folder or Path("runs/incremental") / setting
    if until is not None and figure not in FIGURES:
        raise ValueError(f"the runs of figure {figure} do not end before their last step: leave it out")
    if block and (figure == "blocks" or figure not in FIGURES):
        raise ValueError(f"figure {figure} has no block: leave it out")
    if progress and seeds is None and restricted is None and not block and until is None:
        say_cost(figure, "seconds" if figure in FLOWS else COSTS.get(setting, {}).get(figure))
    if figure in FLOWS:
        result = FLOWS[figure]()
    elif figure in OTHERS:
        chosen = range(3) if seeds is None else seeds
        result = OTHERS[figure](folder, setting, chosen, workers=workers, progress=progress)
    else:
        how: Any = {"restricted": restricted, "block": block, "until": until}
        how |= {"workers": workers, "progress": progress}
        summary = run_figure(figure, folder, setting, seeds, **how)
        measured = measured_runs(folder, summary)
        ended = [] if until is None else [number("step at which runs end for now", "-", until)]
        numbers = table_of([*ended, *figure_numbers(figure, setting, summary, measured)])
        result = Result(draw(figure, measured, summary), numbers)
    path = folder / f"figure-{figure}{'-block' if block else ''}"
    show(result, path)
    return path.with_suffix(".png")


def make_all(setting: str, folder: Path | None = None, *, workers: int = 1, progress: bool = True) -> list[Path]:
    """Make every figure, the shortest ones first; what is finished is not done again, so that it can be killed.

    At the paper's size that takes days of a core: `recipes.seeds_of` has the seeds. Returns the pictures.

    Args:
        setting: "small" or "paper".
        folder: as in `make`.
        workers: processes, of one thread each.
        progress: show bars.

    Raises:
        ValueError: there is no such setting, or a run folder belongs to another recipe.
    """
    length = {figure: max(run.recipe.plan.steps for run in runs(figure, setting)) for figure in FIGURES}
    order = [*FLOWS, *sorted(FIGURES, key=lambda figure: (length[figure], FIGURES[figure].kind == "compare"))]
    pictures = []
    for figure in order:
        print(f"figure {figure}:", flush=True)
        pictures.append(make(figure, folder, setting, workers=workers, progress=progress))
    return pictures
