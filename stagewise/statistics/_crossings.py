"""When a curve crosses a level, or another curve: between which two checkpoints, and where between them."""

import math
from typing import Literal, NamedTuple

import numpy as np

from stagewise.statistics import _constants as c

TIE = float(np.nextafter(0.0, -1.0))
"""The largest number below zero: a tie is not closer."""

Direction = Literal["up", "down"]


class Interval(NamedTuple):
    """Steps (lo, hi]: still short of the threshold at `lo`, past it at `hi`. Censored: hi = inf, lo the last step."""

    lo: float
    hi: float

    @property
    def censored(self) -> bool:
        """Whether the threshold was not reached: emergence is later than `lo`, and nothing more is known."""
        return math.isinf(self.hi)


def crossing(
    steps: np.ndarray, values: np.ndarray, level: float, direction: Direction = "up", *, for_good: bool = False
) -> Interval:
    """Return the two checkpoints between which a curve reaches a level.

    Args:
        steps: ascending.
        values: one a step.
        level: what counts as past it: values at least this large, or with "down" at most this large.
        direction: from which side the level is reached.
        for_good: whether all later values must be past it too; else the first time counts.

    Returns the last step before and the first one after; the first step twice where the curve starts past the level,
    the last step and infinity where it does not reach it.

    >>> crossing(np.array([0, 10, 20, 30]), np.array([0.1, 0.6, 0.4, 0.7]), 0.5)
    Interval(lo=0.0, hi=10.0)
    >>> crossing(np.array([0, 10, 20, 30]), np.array([0.1, 0.6, 0.4, 0.7]), 0.5, for_good=True)
    Interval(lo=20.0, hi=30.0)
    """
    index = _index(values, level, direction, for_good)
    return Interval(float(steps[max(index - 1, 0)]), float(steps[index]) if index < len(steps) else math.inf)


def _index(values: np.ndarray, level: float, direction: Direction, for_good: bool = False) -> int:
    """Return the first place past the level, the number of places where there is none."""
    past = values >= level if direction == "up" else values <= level
    if for_good:
        return len(past) - int(np.argmin(past[::-1])) if not past.all() else 0
    return int(np.argmax(past)) if past.any() else len(past)


def crossing_step(steps: np.ndarray, values: np.ndarray, level: float) -> float:
    """Return the (log-interpolated) step at which a curve reaches a level; the first if past it, the last if never."""
    times, i = np.log1p(steps), min(_index(values, level, "up"), len(values) - 1)
    before = max(i - 1, 0)
    way = (level - values[before]) / (values[i] - values[before]) if values[i] > values[before] else 1.0
    return float(np.expm1(times[i] + (min(way, 1.0) - 1) * (times[i] - times[before])))


def overtaking(steps: np.ndarray, before: np.ndarray, after: np.ndarray) -> Interval:
    """Return where a curve falls below another one for good in 95 % of resamples [resample, step], or censored."""
    lo, hi = np.array([crossing(steps, gap, TIE, "down", for_good=True) for gap in after - before]).T
    tail = (1 - c.LEVEL) / 2
    until = float(np.quantile(hi, 1 - tail, method="higher"))
    lower = float(np.quantile(lo, tail, method="lower")) if np.isfinite(until) else float(steps[-1])
    return Interval(lower, until)
