"""Between which two evaluations a curve without its noise, which only rises, reaches a threshold."""

import math
from typing import NamedTuple

import numpy as np
import scipy

from stagewise.statistics import Direction, Interval, noise, running_median

AROUND = 8
"""Checkpoints on either side of the crossing whose noise counts too: an accuracy near a half is noisier than near 1."""

STRONGEST = 0.9
"""The strongest correlation between checkpoints that is allowed for."""

CROSSING_QUANTILE = 2.269
"""The likelihood ratio that the right place exceeds in one of twenty curves: Banerjee and Wellner (2001)."""

FALLS, WINDOW = 3.0, 5
"""Deviations of the noise by which a running median over so many checkpoints must fall below the level again: what
comes after that is not of the rise."""

BELOW = 1e-6
"""How far, in ranges of the curve, a value is short of the level at least: one that is equal to it is past it."""

FAR = 1e6
"""Ranges of the curve from its middle within which a level counts as it is: all farther ones are as far."""

NOT_FINITE = "that run diverged, or misses that value: leave the step out"


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
    values, level = unit.of_values(values), float(np.clip(unit.of_values(np.array(level)), -FAR, FAR))
    values = _rising_part(values, level)
    n = len(values)
    fit = _rising(values)
    below = level - BELOW * float(np.ptp(values) or 1.0)
    squares = np.array([_squares(values, i, below, level) for i in range(n + 1)])
    best = int(squares.argmin())
    limit = max(CROSSING_QUANTILE * _variance_near(values, fit, best), ((level - below) / 2) ** 2)
    accepted = np.flatnonzero(squares - squares[best] <= limit)
    last = int(accepted[-1])
    # The part that was cut off ends past the level: the crossing is within.
    return MonotoneCrossing(best, int(accepted[0]), min(last, n - 1) if n < whole else last)


def _rising(values: np.ndarray) -> np.ndarray:
    """Return the closest curve that never falls: isotonic regression."""
    fit: np.ndarray = scipy.optimize.isotonic_regression(values).x
    return fit


def _squares(values: np.ndarray, place: int, below: float, level: float) -> float:
    """Return the squares left by the closest rising curve that is below a level before a place, above it after."""
    before, after = values[:place], values[place:]
    left = before - np.minimum(_rising(before), below) if len(before) else before
    right = after - np.maximum(_rising(after), level) if len(after) else after
    return float((left**2).sum() + (right**2).sum())


def _rising_part(values: np.ndarray, level: float) -> np.ndarray:
    # Mirrored at the ends, where the first value alone would be its own median.
    smooth = running_median(values, WINDOW, mode="mirror") if len(values) >= WINDOW else values
    past = np.flatnonzero(smooth >= level)
    if not len(past):
        return values
    residual = values - smooth
    limit = level - FALLS * math.sqrt(float((residual**2).mean()))
    falls = np.flatnonzero((smooth < limit) & (np.arange(len(values)) > past[0]))
    return values[: falls[0]] if len(falls) else values


def _variance_near(values: np.ndarray, fit: np.ndarray, best: int) -> float:
    """Return the variance of the noise, of all checkpoints or of those near a place, as sums of neighbours have it."""
    residual = values - fit
    near = slice(max(best - AROUND, 0), best + AROUND)
    # An accuracy is quiet once it is near 1: beside what comes before the crossing that would halve the noise.
    sides = [slice(near.start, best), slice(best, near.stop)]
    parts = [slice(None), near, *(side for side in sides if len(values[side]) == AROUND)]
    left = [(residual[part], len(fit[part]) - len(np.unique(fit[part]))) for part in parts]
    whole = max(float((of_part**2).sum()) / max(freedom, 1) for of_part, freedom in left)
    if len(values[near]) >= AROUND:  # of fewer, second differences show the bends
        whole = max(whole, float(noise(values[near])) ** 2)
    size = float((residual**2).sum())
    rate = float((residual[1:] * residual[:-1]).sum()) / size if size > 0 else 0.0
    rate = min(max(rate, 0.0), STRONGEST)
    return whole * (1 + rate) / (1 - rate)


class Unit(NamedTuple):
    """A level and a power of two: values less the level, over the power, are about 0 and of the size of 1.

    Squares of a curve that lies far from 0 would lose the digits of its changes, and those of 1e154 be infinite.

    >>> unit = Unit.of(np.array([1e9, 1e9, 1e9 + 0.75]))
    >>> unit.of_values(np.array([1e9, 1e9 + 0.75])).tolist(), unit.level(1.5), unit.size(1.5)
    ([0.0, 1.5], 1000000000.75, 0.75)
    """

    exponent: int
    centre: float

    @classmethod
    def of(cls, curve: np.ndarray) -> "Unit":
        """Return the unit of a curve without outliers, [step]."""
        exponent = int(np.frexp(np.ptp(curve / 2))[1])  # halves: a range may be larger than any number
        return cls(exponent, float(np.median(np.ldexp(curve, -exponent))))

    def of_values(self, values: np.ndarray) -> np.ndarray:
        """Return values of the curve, of any shape, in this unit."""
        return np.asarray(np.ldexp(values, -self.exponent) - self.centre)

    def level(self, value: float) -> float:
        """Return a value in this unit as one of the curve."""
        return float(np.ldexp(value + self.centre, self.exponent))

    def size(self, value: float) -> float:
        """Return a difference in this unit as one of the curve."""
        return float(np.ldexp(value, self.exponent))
