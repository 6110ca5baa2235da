"""Scan and Snap's figures by number: each is made in a folder, and its numbers printed beside the published ones."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from stagewise.papers.published import Result, say_cost, show
from stagewise.papers.scan_and_snap import _synthetic as experiment
from stagewise.papers.scan_and_snap._lemmas import figure_lemmas
from stagewise.papers.scan_and_snap._orders import figure_orders
from stagewise.papers.scan_and_snap._ratio import figure_ratio
from stagewise.papers.scan_and_snap._syn_medium_figures import figure_6, figure_recall
from stagewise.papers.scan_and_snap._syn_small_figures import figure_4, figure_5
from stagewise.papers.scan_and_snap._theory_figures import figure_3, figure_8, figure_9, figure_theorems
from stagewise.papers.scan_and_snap._tokens import figure_tokens
from stagewise.papers.scan_and_snap._wikitext_freezing import STEPS, figure_freezing
from stagewise.papers.scan_and_snap.figure_7 import figure_7
from stagewise.papers.scan_and_snap.figure_10 import figure_10

FIGURES = (
    *("3", "4", "5", "6", "7", "8", "9", "10", "11", "12"),
    *("theorems", "lemmas", "tokens", "orders", "ratio", "freezing"),
)

_SEEDED = {"5": 1, "6": 2, "7": 1, "10": 1, "11": 2, "12": 2, "ratio": 2, "freezing": 1}
"""The least number of seeds of the figures that take any."""

_REPLAYED, _TEXT = ("6", "11", "12"), ("7", "10", "freezing")
"""Figures whose published seeds are replayed, and those that train on WikiText."""

_STEPS = {"small": 300, "paper": 1500}
"""Minibatches of figure 7: three minutes of one core a seed, or fifteen."""

COSTS = {
    **dict.fromkeys(("3", "4", "5", "8", "9", "theorems", "lemmas", "orders"), "seconds"),
    **dict.fromkeys(("6", "11", "12", "tokens"), "a minute"),
    "ratio": "two minutes",
    **dict.fromkeys(_TEXT, "ten minutes"),
}
"""The approximate time of a figure with its own seeds; those of text at the small setting."""


def draw(
    figure: str,
    folder: Path,
    *,
    seeds: int | None = None,
    fresh: bool = False,
    data: str | None = None,
    steps: int | None = None,
    layers: int | None = None,
    checkpoints: int | None = None,
    setting: str = "small",
    workers: int = 1,
    progress: bool = True,
) -> Result:
    """Make one of the figures in a folder, and print its numbers beside the published ones.

    Args:
        figure: one of FIGURES: "3" to "12", or "theorems" for Theorems 1 to 4, Lemmas 1 and 2, Remark 1, or "lemmas"
            for Lemmas 3 to 9, or "tokens" for Corollaries 1 and 2, priors and the size of the data, or "orders" for the
            constants of Theorem 1 and for Assumption 2, or "ratio" for that of the rates at which attention is
            sparsest, or "freezing" for how far attention on WikiText still moves.
        folder: where to write: `figure-N.png`, `.svg` and `.csv`, and the tables of the figure.
        seeds: how many, for figures 5 (20 by default), 6, 11, 12, ratio (10), 7, freezing (3), 10 (3, or 5 at the
            paper's size).
        fresh: figures 6, 11 and 12 with new seeds in place of the published ones.
        data: the folder of text of figures 7, 10 and freezing; see `WikiText`.
        steps: minibatches of figures 7, 10 and freezing in place of the setting's.
        layers: of figure 7: 1 by default, the paper's upper row; 3 is its lower row.
        checkpoints: of figure 7's first run and each of figure 10's, 47 MB each: 12 of figure 7 by default, else none.
        setting: of figures 7, 10 and freezing: "small" for minutes of a core, or "paper".
        workers: processes of figures 7, 10 and freezing that train at the same time; the others are one process.
        progress: show bars.

    Raises:
        ValueError: an unknown figure, or a setting that it does not have.
    """
    _check(figure, seeds, fresh, data, steps, layers, checkpoints, setting)
    if progress and seeds is None and steps is None and layers is None and setting == "small":
        say_cost(figure, COSTS[figure])
    of_text: dict[str, Any] = {"data": data, "workers": workers, "progress": progress}
    of_text |= {} if checkpoints is None else {"checkpoints": checkpoints}
    of_text |= {} if seeds is None else {"seeds": seeds}
    chosen = range(1, 1 + (seeds or len(experiment.SEEDS)))
    makers: dict[str, Callable[[], Result]] = {
        "3": figure_3,
        "4": lambda: figure_4(folder, progress=progress),
        "5": lambda: figure_5(folder, seeds=range(seeds or 20), progress=progress),
        "6": lambda: figure_6(folder, seeds=chosen, published=not fresh, progress=progress),
        "7": lambda: figure_7(folder, steps=steps or _STEPS[setting], n_layers=layers or 1, **of_text),
        "8": figure_8,
        "9": figure_9,
        "10": lambda: figure_10(folder, setting, steps=steps, **of_text),
        "11": lambda: figure_recall(folder, (1, 3), seeds=chosen, published=not fresh, progress=progress),
        "12": lambda: figure_recall(folder, (5, 10), seeds=chosen, published=not fresh, progress=progress),
        "theorems": figure_theorems,
        "lemmas": figure_lemmas,
        "tokens": figure_tokens,
        "orders": figure_orders,
        "ratio": lambda: figure_ratio(folder, seeds=chosen, progress=progress),
        "freezing": lambda: figure_freezing(folder, setting, steps=steps or STEPS, **of_text),
    }
    result = makers[figure]()
    show(result, folder / f"figure-{figure}")
    return result


def _check(
    figure: str,
    seeds: int | None,
    fresh: bool,
    data: str | None,
    steps: int | None,
    layers: int | None,
    checkpoints: int | None,
    setting: str,
) -> None:
    if figure not in FIGURES:
        raise ValueError(f"there is no figure {figure} here; there are {', '.join(FIGURES)}")
    if setting not in ("small", "paper"):
        raise ValueError(f'the setting is "small" or "paper", got {setting!r}')
    if seeds is not None and seeds < _SEEDED.get(figure, seeds + 1):
        raise ValueError(
            "figures 5, 7, 10 and freezing take a seed or more, 6, 11, 12 and ratio two or more, the others none; "
            f"got {seeds} of {figure}"
        )
    if fresh and figure not in _REPLAYED:
        raise ValueError(f"only figures {', '.join(_REPLAYED)} have fresh seeds to compare with, got figure {figure}")
    if figure not in _TEXT and (data is not None or steps is not None):
        raise ValueError(f"only figures 7, 10 and freezing read text and take a number of steps, got figure {figure}")
    if figure not in ("7", "10") and checkpoints is not None:
        raise ValueError(f"only figures 7 and 10 save checkpoints of their runs, got figure {figure}")
    if layers is not None and (figure != "7" or layers < 1):
        raise ValueError(f"only figure 7 takes a number of layers, at least 1; got {layers} of figure {figure}")
