"""Test accuracy of runs of recall over training, each in a folder of its own, and when it emerges."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from stagewise.papers.emergence._grids import FigureRequest
from stagewise.papers.emergence._runs import FITTED, measured, run_path, until_learned
from stagewise.papers.emergence_times import find_emergence_times
from stagewise.papers.published import number
from stagewise.papers.running import run_each
from stagewise.probes import Accuracy
from stagewise.recipe import Recipe
from stagewise.table import select
from stagewise.training import Log

Named = tuple[Mapping[str, Any], Recipe]
"""What a run's folder is named by, and its recipe."""


def accuracies(
    kind: str, runs: Sequence[Named], request: FigureRequest, log_of: Callable[[Recipe], Log | None] = until_learned
) -> list[pd.DataFrame]:
    """Return the test accuracy of each run over training.

    Args:
        kind: how the runs' folders begin.
        runs: what each folder is named by beside the steps, and its recipe.
        request: where the folders are, and how they are trained.
        log_of: the log of a recipe, which may end its training; by default once recall is learned.
    """
    one = functools.partial(_accuracy, kind=kind, folder=request.folder / "runs", log_of=log_of)
    return run_each(one, runs, request.workers, progress=request.progress)


def emerged(what: str, published: str, accuracy: pd.DataFrame) -> dict[str, str]:
    """Return the middle of the steps between which accuracy is .5, or that it never is, and the last accuracy."""
    times = find_emergence_times(accuracy, "Accuracy", "accuracy", FITTED)
    lo, hi = float(times["lo"].item()), float(times["hi"].item())
    last = f"accuracy {accuracy['value'].iloc[-1]:.3f} at step {accuracy['step'].iloc[-1]}"
    if math.isinf(hi):
        return number(what, published, "never", remark=last)
    return number(what, published, f"{(lo + hi) / 2:g}", remark=f"({lo:g}, {hi:g}]; {last}")


def steps_to(level: float, accuracy: pd.DataFrame) -> float:
    """Return the first measured step from which accuracy is at a level; inf where it never is."""
    return float(find_emergence_times(accuracy, "Accuracy", "accuracy", level)["hi"].item())


def _accuracy(
    run: Named, kind: str, folder: Path, log_of: Callable[[Recipe], Log | None], progress: bool
) -> pd.DataFrame:
    named, recipe = run
    path = run_path(kind, folder, **named, budget=recipe.plan.steps)
    table = measured(recipe, path, [Accuracy()], log=log_of(recipe), progress=progress)
    return select(table, "Accuracy", "accuracy")
