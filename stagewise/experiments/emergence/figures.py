"""The emergence of sparse attention: every figure of the paper by number, with the published numbers beside ours."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from stagewise.checkpoints.run_folder import write
from stagewise.experiments.emergence.grids import FigureRequest, axes_of
from stagewise.experiments.emergence.numbers import Result, in_words
from stagewise.experiments.emergence.recall import figure_4, figure_5, figure_17
from stagewise.experiments.emergence.regression import figure_3
from stagewise.experiments.emergence.toy_figures import figure_1, figure_2
from stagewise.sweeping import WORKERS

__all__ = ["FIGURES", "figure_path", "in_words", "run"]

FIGURES = {1: figure_1, 2: figure_2, 3: figure_3, 4: figure_4, 5: figure_5, 17: figure_17}


def run(
    figure: int,
    setting: str = "small",
    folder: str | Path = "runs/emergence",
    *,
    grid: Mapping[str, Sequence[int | float]] | None = None,
    budget: int | None = None,
    workers: int = WORKERS,
    progress: bool = True,
) -> Result:
    """Run what a figure needs, write it to `folder` as PNG and SVG and its numbers as CSV, and return both.

    Finished runs are not repeated.

    Args:
        figure: 1 or 2, the toy model; 3, a transformer on regression; 4 and 5, one on recall; 17, a single run of it.
        setting: "small" for two cores, "paper" for the published sizes.
        folder: where runs, figures and numbers go.
        grid: values of T, d, B, p, N_pairs, N_tokens or seed in place of the setting's, for the runs that are trained.
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
    folder = Path(folder)
    runs = folder / f"figure-{figure}-{setting}"
    result = FIGURES[figure](FigureRequest(runs, setting, axes, frozenset(given), budget, workers, progress))
    for kind in ("png", "svg"):
        path = figure_path(folder, figure, setting, kind)
        write(path, lambda partial, kind=kind: result.figure.savefig(partial, format=kind, dpi=150))  # type: ignore[misc]
    numbers = figure_path(folder, figure, setting, "csv")
    write(numbers, lambda partial: result.numbers.to_csv(partial, index=False))
    return result


def figure_path(folder: str | Path, figure: int, setting: str, kind: str = "png") -> Path:
    """Return where a figure is written.

    >>> figure_path("runs/emergence", 1, "small").as_posix()
    'runs/emergence/figures/figure-1-small.png'
    """
    return Path(folder) / "figures" / f"figure-{figure}-{setting}.{kind}"
