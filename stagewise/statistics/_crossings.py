"""When a curve crosses a level, or another curve: between which two checkpoints, and where between them."""

import math
from typing import Literal, NamedTuple

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._noise.differences import monotone, running_median, variance_near
from stagewise.statistics._transition import Unit

TIE = float(np.nextafter(0.0, -1.0))
"""The largest number below zero: a tie is not closer."""

NOT_FINITE = "that run diverged, or misses that value: leave the step out"

Direction = Literal["up", "down"]


class MonotoneCrossing(NamedTuple):
    """Places at which a curve crosses a level, by their number: 0 is before its first value, n after its last. The
    curve crosses between values `best` - 1 and `best`, with 95 % confidence between `first` - 1 and `last`.
    """

    best: int
    first: int
    last: int


def monotone_crossing(values: np.ndarray, level: float) -> MonotoneCrossing:
    """Return where the curve without its noise, which never falls, crosses a level from below.

    For each place the closest curve that never falls and crosses there is fitted; those whose squares exceed the least
    ones by no more than noise explains (a likelihood ratio) are in the interval. Noise is the largest of what the
    closest curve that never falls leaves, over the values less its steps, on all checkpoints and near the place, and of
    what second differences show there; it is as correlated between checkpoints as what that curve leaves. Where the
    curve falls below the level again, for longer than two checkpoints, only the part before counts.

    Source: the test is Banerjee and Wellner's (2001), Likelihood ratio tests for monotone functions, Annals of
    Statistics 29; deviations: the variance is that of sums of correlated noise, and the interval is the hull.
    """
    whole, unit = len(values), Unit.of(values)
    values, level = unit.of_values(values), float(np.clip(unit.of_values(np.array(level)), -c.FAR, c.FAR))
    values = _rising_part(values, level)
    n = len(values)
    fit = monotone(values)
    below = level - c.BELOW * float(np.ptp(values) or 1.0)
    squares = np.array([_squares(values, i, below, level) for i in range(n + 1)])
    best = int(squares.argmin())
    limit = max(c.CROSSING_QUANTILE * variance_near(values, fit, best), ((level - below) / 2) ** 2)
    accepted = np.flatnonzero(squares - squares[best] <= limit)
    last = int(accepted[-1])
    # The part that was cut off ends past the level: the crossing is within.
    return MonotoneCrossing(best, int(accepted[0]), min(last, n - 1) if n < whole else last)


def _squares(values: np.ndarray, place: int, below: float, level: float) -> float:
    """Return the squares left by the closest rising curve that is below a level before a place, above it after."""
    before, after = values[:place], values[place:]
    left = before - np.minimum(monotone(before), below) if len(before) else before
    right = after - np.maximum(monotone(after), level) if len(after) else after
    return float((left**2).sum() + (right**2).sum())


def _rising_part(values: np.ndarray, level: float) -> np.ndarray:
    # Mirrored at the ends, where the first value alone would be its own median.
    smooth = running_median(values, c.WINDOW, mode="mirror") if len(values) >= c.WINDOW else values
    past = np.flatnonzero(smooth >= level)
    if not len(past):
        return values
    residual = values - smooth
    limit = level - c.FALLS * math.sqrt(float((residual**2).mean()))
    falls = np.flatnonzero((smooth < limit) & (np.arange(len(values)) > past[0]))
    return values[: falls[0]] if len(falls) else values


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
