"""When a curve crosses a level, or another curve: between which two checkpoints, and where between them."""

import math
from typing import Literal, NamedTuple

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._monotone_crossing import monotone_crossing

TIE = float(np.nextafter(0.0, -1.0))
"""The largest number below zero: a tie is not closer."""

NOT_FINITE = "that run diverged, or misses that value: leave the step out"


class Interval(NamedTuple):
    """Steps (lo, hi]: still short of the threshold at `lo`, past it at `hi`. Censored: hi = inf, lo the last step."""

    lo: float
    hi: float

    @property
    def censored(self) -> bool:
        """Whether the threshold was not reached: emergence is later than `lo`, and nothing more is known."""
        return math.isinf(self.hi)


Direction = Literal["up", "down"]


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


def emergence_interval(
    steps: np.ndarray, values: np.ndarray, threshold: float, direction: Direction = "up"
) -> Interval:
    """Return between which two evaluations a curve without its noise, which only rises, reaches a threshold: 95 %.

    For a curve that never falls these are the two around its crossing. For a noisy one they are those between which the
    closest such curve may cross: its first value past the threshold is early. Later values do not count after a curve
    fell below the threshold again. Where it may not have crossed by the last evaluation, it is censored.

    Args:
        steps: when it was evaluated, ascending.
        values: one a step.
        threshold: the value that counts as emergence.
        direction: "up" for an accuracy, "down" for a loss.

    Raises:
        ValueError: the curve is empty, not ascending in steps, has values that are not finite, or starts past the
            threshold, so that there is no plateau; or the threshold is no number.

    Source: `monotone_crossing`.

    >>> emergence_interval(np.array([0, 50, 100]), np.array([0.1, 0.2, 0.7]), 0.5)
    Interval(lo=50.0, hi=100.0)
    """
    if direction not in ("up", "down"):
        raise ValueError(f'direction must be "up" or "down", got {direction!r}')
    if math.isnan(threshold):
        raise ValueError("the threshold must be a number, got nan")
    steps = np.asarray(steps)
    if len(steps) == 0 or len(steps) != len(values) or (steps[1:] <= steps[:-1]).any():
        raise ValueError(f"a curve needs one value a step, steps ascending; got {len(steps)} and {len(values)}")
    if not np.isfinite(values).all():
        raise ValueError(f"the curve is not finite at step {steps[~np.isfinite(values)][0]}: {NOT_FINITE}")
    sign = 1.0 if direction == "up" else -1.0
    place = monotone_crossing(sign * np.asarray(values, float), sign * threshold)
    if place.best == 0:
        raise ValueError(
            f"the curve starts past the threshold {threshold}: {values[0]:g} at step {steps[0]}, so there is no "
            "plateau to measure; choose another threshold (chance level is on its wrong side)"
        )
    last = float(steps[place.last]) if place.last < len(steps) else math.inf
    return Interval(float(steps[max(place.first - 1, 0)]), last)


def overtaking(steps: np.ndarray, before: np.ndarray, after: np.ndarray) -> Interval:
    """Return where a curve falls below another one for good in 95 % of resamples [resample, step], or censored."""
    lo, hi = np.array([crossing(steps, gap, TIE, "down", for_good=True) for gap in after - before]).T
    tail = (1 - c.LEVEL) / 2
    until = float(np.quantile(hi, 1 - tail, method="higher"))
    lower = float(np.quantile(lo, tail, method="lower")) if np.isfinite(until) else float(steps[-1])
    return Interval(lower, until)
