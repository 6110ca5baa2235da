"""When a noisy curve that only rises crosses a level: not its first value past it, which noise makes early."""

import math
from typing import NamedTuple

import numpy as np
from scipy.ndimage import median_filter

from stagewise.statistics._noise.differences import monotone, noise
from stagewise.statistics._unit import Unit

QUANTILE = 2.269
"""What the likelihood ratio of the right place exceeds in one of twenty curves: Banerjee and Wellner (2001)."""

AROUND = 8
"""Checkpoints on either side of the crossing whose noise counts too: an accuracy near a half is noisier than near 1."""

FALLS, WINDOW = 3.0, 5
"""Deviations of the noise by which a running median over so many checkpoints must fall below the level again: what
comes after that is not of the rise."""

BELOW = 1e-6
"""How far, in ranges of the curve, a value is short of the level at least: one that is equal to it is past it."""

STRONGEST = 0.9
"""The strongest correlation between checkpoints that is allowed for."""

FAR = 1e6
"""Ranges of the curve from its middle within which a level counts as it is: all farther ones are as far."""


class MonotoneCrossing(NamedTuple):
    """Places at which a curve crosses a level, by their number: 0 is before its first value, n after its last.

    The curve crosses between values `best` - 1 and `best`, with 95 % confidence between `first` - 1 and `last`.
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

    >>> monotone_crossing(np.array([0.1, 0.2, 0.7]), 0.5)
    MonotoneCrossing(best=2, first=2, last=2)
    """
    whole, unit = len(values), Unit.of(values)
    values, level = unit.of_values(values), float(np.clip(unit.of_values(np.array(level)), -FAR, FAR))
    values = _rising_part(values, level)
    n = len(values)
    fit = monotone(values)
    below = level - BELOW * float(np.ptp(values) or 1.0)
    squares = np.array([_squares(values, i, below, level) for i in range(n + 1)])
    best = int(squares.argmin())
    limit = max(QUANTILE * _variance(values, fit, best), ((level - below) / 2) ** 2)
    accepted = np.flatnonzero(squares - squares[best] <= limit)
    last = int(accepted[-1])
    # The part that was cut off ends past the level: the crossing is within.
    return MonotoneCrossing(best, int(accepted[0]), min(last, n - 1) if n < whole else last)


def _squares(values: np.ndarray, place: int, below: float, level: float) -> float:
    """Return what the closest curve leaves that never falls, stays below a level before a place, and above it after."""
    before, after = values[:place], values[place:]
    left = before - np.minimum(monotone(before), below) if len(before) else before
    right = after - np.maximum(monotone(after), level) if len(after) else after
    return float((left**2).sum() + (right**2).sum())


def _variance(values: np.ndarray, fit: np.ndarray, best: int) -> float:
    """Return the variance of the noise, of all checkpoints or of those near a place, as sums of neighbours have it."""
    residual = values - fit
    near = slice(max(best - AROUND, 0), best + AROUND)
    # An accuracy is quiet once it is near 1: beside what comes before the crossing that would halve the noise.
    sides = [slice(near.start, best), slice(best, near.stop)]
    parts = [slice(None), near, *(side for side in sides if len(values[side]) == AROUND)]
    whole = max(_of(residual[part], fit[part]) for part in parts)
    if len(values[near]) >= AROUND:  # of fewer, second differences show the bends
        whole = max(whole, float(noise(values[near])) ** 2)
    size = float((residual**2).sum())
    rate = float((residual[1:] * residual[:-1]).sum()) / size if size > 0 else 0.0
    rate = min(max(rate, 0.0), STRONGEST)
    return whole * (1 + rate) / (1 - rate)


def _of(residual: np.ndarray, fit: np.ndarray) -> float:
    return float((residual**2).sum()) / max(len(fit) - len(np.unique(fit)), 1)


def _rising_part(values: np.ndarray, level: float) -> np.ndarray:
    # Mirrored at the ends, where the first value alone would be its own median.
    smooth = median_filter(values, size=WINDOW, mode="mirror") if len(values) >= WINDOW else values
    past = np.flatnonzero(smooth >= level)
    if not len(past):
        return values
    residual = values - smooth
    limit = level - FALLS * math.sqrt(float((residual**2).mean()))
    falls = np.flatnonzero((smooth < limit) & (np.arange(len(values)) > past[0]))
    return values[: falls[0]] if len(falls) else values
