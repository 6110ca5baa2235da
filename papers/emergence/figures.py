"""The emergence of sparse attention: every figure of the paper by number, with the published numbers beside ours."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from stagewise.papers.emergence._alike_heads import figure_heads
from stagewise.papers.emergence._embeddings import figure_embeddings
from stagewise.papers.emergence._fixed_sequences import figure_fixed
from stagewise.papers.emergence._flow_figures import figure_6, figure_7, figure_8, figure_10
from stagewise.papers.emergence._grids import FigureRequest, axes_of
from stagewise.papers.emergence._most_frequent import figure_values
from stagewise.papers.emergence._norms import figure_norms
from stagewise.papers.emergence._recall import figure_4, figure_5, figure_16, figure_17
from stagewise.papers.emergence._regression import figure_3, figure_11, figure_12
from stagewise.papers.emergence._schedules import figure_repetition, figure_schedules
from stagewise.papers.emergence._toy_descent import figure_9
from stagewise.papers.emergence._toy_figures import figure_1, figure_2
from stagewise.papers.emergence._variants import figure_13, figure_14, figure_15
from stagewise.papers.published import Result, say_cost, show
from stagewise.sweeping import WORKERS

FIGURES: dict[int | str, Callable[[FigureRequest], Result]] = {
    1: figure_1, 2: figure_2, 3: figure_3, 4: figure_4, 5: figure_5, 6: figure_6, 7: figure_7, 8: figure_8,
    9: figure_9, 10: figure_10, 11: figure_11, 12: figure_12, 13: figure_13, 14: figure_14, 15: figure_15,
    16: figure_16, 17: figure_17, "values": figure_values, "heads": figure_heads,
    "schedules": figure_schedules, "repetition": figure_repetition, "fixed": figure_fixed,
    "embeddings": figure_embeddings, "norms": figure_norms,
}  # fmt: skip

_SHARED: dict[int | str, str] = {**dict.fromkeys((3, 11, 12, 13, 14, 15), "regression"), 16: "figure-5"}
"""Where the runs of figures go that have some in common."""

COSTS: dict[str, dict[int | str, str]] = {
    "small": {
        1: "half a minute", 2: "a minute", 3: "half an hour", 4: "half an hour", 5: "ten minutes", 6: "seconds",
        7: "seconds", 8: "seconds", 9: "half a minute", 10: "seconds", 11: "a few minutes", 12: "ten minutes",
        13: "four minutes", 14: "a quarter of an hour", 15: "ten minutes", 16: "half an hour", 17: "five minutes",
        "values": "two minutes", "heads": "three minutes", "schedules": "a minute", "fixed": "four minutes",
        "norms": "four minutes", "repetition": "six minutes", "embeddings": "a minute",
    },
    "paper": {6: "seconds", 7: "seconds", 8: "seconds", 9: "an hour", 10: "seconds"},
}  # fmt: skip
"""The approximate time of a figure by setting, with its own grid and budget, where that is known."""


def run(
    figure: int | str,
    setting: str = "small",
    folder: str | Path = "runs/emergence",
    *,
    grid: Mapping[str, Sequence[int | float]] | None = None,
    budget: int | None = None,
    workers: int = WORKERS,
    progress: bool = True,
) -> Result:
    """Run a figure's experiments; write it to `folder` as PNG and SVG and its numbers as CSV, print these, return both.

    Finished runs are not repeated.

    Args:
        figure: 1, 2, 6 to 10 and "schedules", the toy model; 3 and 11 to 15, a transformer on regression; 4, 5, 16 and
            17, one on recall; "values", the heuristic behind Figure 5's plateau, "heads", whether those of a layer are
            alike, "repetition", repetition in recall that ends, "fixed", recall from fixed sequences at a third
            party's setting, "embeddings", with them drawn anew at every step, "norms", with layer norms and without.
        setting: "small" for two cores, "paper" for the published sizes.
        folder: where runs, figures and numbers go.
        grid: values of T, d, B, p, N_pairs, N_tokens, batch or seed in place of the setting's, for the runs that are
            trained.
        budget: steps of every run in place of the figure's own; what has not emerged by then is censored.
        workers: processes that train at the same time.
        progress: show bars.

    Raises:
        ValueError: no such figure, setting or axis, a size out of range, or no workers; nothing was trained then.
        RunsFailed: some runs failed; the others are kept.

    Source: Zucchet et al. (2025), The emergence of sparse attention, arXiv:2505.17863.
    """
    given = grid or {}
    axes = axes_of(figure, setting, given)
    if budget is not None and budget < 1:
        raise ValueError(f"the budget must be at least one step, got {budget}")
    if progress and not given and budget is None:
        say_cost(figure, COSTS[setting].get(figure))
    folder = Path(folder)
    runs = folder / f"{_SHARED.get(figure, f'figure-{figure}')}-{setting}"
    result = FIGURES[figure](FigureRequest(runs, setting, axes, frozenset(given), budget, workers, progress))
    show(result, figure_path(folder, figure, setting))
    return result


def figure_path(folder: str | Path, figure: int | str, setting: str, kind: str = "png") -> Path:
    """Return where a figure is written.

    >>> figure_path("runs/emergence", 1, "small").as_posix()
    'runs/emergence/figures/figure-1-small.png'
    """
    return Path(folder) / "figures" / f"figure-{figure}-{setting}.{kind}"
