"""When a noisy curve that only rises crosses a level: not its first value past it, which noise makes early."""

import math
from typing import NamedTuple

import numpy as np
import scipy

from stagewise.statistics import _constants as c
from stagewise.statistics._curve import Unit
from stagewise.statistics._noise.differences import monotone, variance_near


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
    smooth = scipy.ndimage.median_filter(values, size=c.WINDOW, mode="mirror") if len(values) >= c.WINDOW else values
    past = np.flatnonzero(smooth >= level)
    if not len(past):
        return values
    residual = values - smooth
    limit = level - c.FALLS * math.sqrt(float((residual**2).mean()))
    falls = np.flatnonzero((smooth < limit) & (np.arange(len(values)) > past[0]))
    return values[: falls[0]] if len(falls) else values
