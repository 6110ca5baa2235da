"""When something emerges: the interval between two evaluations in which a curve first crosses a threshold."""

import math
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from stagewise.table import select


class Interval(NamedTuple):
    """Steps (lo, hi]: still short of the threshold at `lo`, past it at `hi`. Censored: hi = inf, lo the last step."""

    lo: float
    hi: float

    @property
    def censored(self) -> bool:
        """Whether the threshold was not reached: emergence is later than `lo`, and nothing more is known."""
        return math.isinf(self.hi)


def emergence_interval(
    steps: np.ndarray, values: np.ndarray, threshold: float, direction: Literal["up", "down"] = "up"
) -> Interval:
    """Return between which two evaluations a curve first reaches a threshold.

    Args:
        steps: when it was evaluated, ascending.
        values: what was found, one a step.
        threshold: the value that counts as emergence.
        direction: "up" for an accuracy, "down" for a loss.

    Raises:
        ValueError: the curve is empty, not ascending in steps, has values that are not finite, or starts past the
            threshold, so that no plateau was seen.

    >>> emergence_interval(np.array([0, 50, 100]), np.array([0.1, 0.2, 0.7]), 0.5)
    Interval(lo=50.0, hi=100.0)
    """
    if direction not in ("up", "down"):
        raise ValueError(f'direction must be "up" or "down", got {direction!r}')
    if len(steps) == 0 or len(steps) != len(values) or (np.diff(steps) <= 0).any():
        raise ValueError(f"a curve needs one value a step, steps ascending; got {len(steps)} and {len(values)}")
    if not np.isfinite(values).all():
        raise ValueError(f"the curve is not finite at step {steps[~np.isfinite(values)][0]}: that run diverged")
    past = values >= threshold if direction == "up" else values <= threshold
    if past[0]:
        raise ValueError(
            f"the curve starts past the threshold {threshold}: {values[0]:g} at step {steps[0]}, so there is no "
            "plateau to measure; choose another threshold (chance level is on its wrong side)"
        )
    if not past.any():
        return Interval(float(steps[-1]), math.inf)
    first = int(np.argmax(past))
    return Interval(float(steps[first - 1]), float(steps[first]))


def emergence_times(
    table: pd.DataFrame,
    probe: str,
    quantity: str,
    threshold: float,
    direction: Literal["up", "down"] = "up",
    **axes: object,
) -> pd.DataFrame:
    """Return when each run of a table crosses a threshold: columns `run, lo, hi, censored` (optimiser steps).

    Args:
        table: tidy rows of one or more runs.
        probe: whose rows.
        quantity: which of them.
        threshold: the value that counts as emergence.
        direction: "up" for an accuracy or attention, "down" for a loss.
        **axes: values on the axes, such as relation="query to value", layer=1; one row a step must be left.

    Raises:
        ValueError: no such rows, several rows a step, or what `emergence_interval` refuses, with the run's name.

    Source: Zucchet et al. (2025), arXiv:2505.17863, section 2.3. Deviation: an interval and a censored mark in
    place of the first step past the threshold.
    """
    rows = []
    for run, curve in select(table, probe, quantity, **axes).groupby("run", sort=False):
        if curve["step"].duplicated().any():
            several = [
                name for name in curve if curve[name].nunique() > 1 and name not in ("step", "value", "lo", "hi")
            ]
            raise ValueError(f"run {run!r} has several rows a step: choose a value of {', '.join(map(str, several))}")
        try:
            found = emergence_interval(curve["step"].to_numpy(), curve["value"].to_numpy(), threshold, direction)
        except ValueError as reason:
            raise ValueError(f"run {run!r}: {reason}") from reason
        rows.append({"run": run, "lo": found.lo, "hi": found.hi, "censored": found.censored})
    return pd.DataFrame(rows)
