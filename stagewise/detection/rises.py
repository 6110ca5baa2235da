"""Where one curve rises most: its levels before and after, how localised it is, and what speaks against an onset."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from stagewise.detection.concavity_test import acceleration
from stagewise.detection.turning_points import NEARBY, PEAK, noise, smoothed

SMALLEST = 0.1
"""The least rise that counts: of a score in [0, 1], or in nats."""

LOCAL, SHARE = 3.0, 0.5
"""An onset has at least this share of its rise within this ratio of steps; an exponential approach has 0.38."""

STANDS_OUT = 4.0
"""The middle half of a rise is so many times what the curve usually rises in as many checkpoints."""

QUARTER = 0.25
"""Checkpoints within this part of the rise from its lower level are before it, of its upper level after it."""

LASTING = 2
"""Checkpoints that a rise must be seen at."""

FEWEST = 6
"""With fewer checkpoints a rise cannot be told from noise."""


class Edges(NamedTuple):
    """Places of a rise in its curve: the level before is [start, low], the level after [high, end]."""

    start: int
    low: int
    high: int
    end: int

    @property
    def all(self) -> slice:
        """From the level before to the level after."""
        return slice(self.start, self.end + 1)

    def levels(self, values: np.ndarray) -> tuple[float, float]:
        """Return the medians before and after."""
        before, after = values[self.start : self.low + 1], values[self.high : self.end + 1]
        return float(np.median(before)), float(np.median(after))


class Rise(NamedTuple):
    """The largest rise of a curve, from `base` to `top`; `last` is the value at the last checkpoint.

    `share` is the part of the rise in its fastest threefold of steps, `prominence` its middle half over what the
    curve usually rises in as many checkpoints before or after (0 if neither lasts so long), `deviation` the noise
    before and after, `lasting` the number of checkpoints past half of the way, `p_value` that of a curve that never
    accelerates.
    """

    base: float
    top: float
    last: float
    share: float
    prominence: float
    deviation: tuple[float, float]
    lasting: int
    p_value: float
    edges: Edges

    @property
    def rejection(self) -> str:
        """Why this is no onset, leaving the p-value aside; nothing where it may be one."""
        size = self.top - self.base
        if size < SMALLEST:
            return f"moves by {size:.2g}, less than {SMALLEST}"
        if size < PEAK * max(self.deviation):
            return f"moves by {size:.2g}: noise of {max(self.deviation):.2g} may show that"
        if self.lasting < LASTING:
            return "moves at one checkpoint only"
        if self.share < SHARE:
            return f"moves gradually: {self.share:.0%} of the way within a ratio of {LOCAL:g} in steps"
        if self.prominence < STANDS_OUT:
            return "moves no faster than at other times"
        return ""


def rise(steps: np.ndarray, values: np.ndarray) -> Rise:
    """Measure the largest rise of a curve: between the lowest smoothed value and the highest one after it.

    Raises:
        ValueError: a value is not finite, or there is none.

    >>> steps = np.arange(0, 200, 10)
    >>> found = rise(steps, np.where(steps < 100, 0.1, 0.7))
    >>> found.base, found.top, found.rejection
    (0.1, 0.7, '')
    """
    if not len(values) or not np.isfinite(values).all():
        raise ValueError(f"a rise is measured on finite values, got {values}")
    edges = _edges(smoothed(values))
    base, top = edges.levels(values)
    fit = isotonic_regression(values[edges.all]).x
    # Where one side is short, checkpoints of the rise itself come in: they are few, and the estimate is robust.
    parts = (values[: max(edges.low + 1, NEARBY)], values[min(edges.high, max(len(values) - NEARBY, 0)) :])
    before, after = (float(noise(part)) for part in parts)
    return Rise(
        base,
        top,
        float(values[-1]),
        _local_share(steps[edges.all], fit) / (top - base) if top > base else 0.0,
        _prominence(values, fit, edges),
        (before, after),
        int((values[edges.all] > (base + top) / 2).sum()),
        acceleration(steps, values, edges.start) if len(values) >= FEWEST else 1.0,
        edges,
    )


def _edges(smooth: np.ndarray) -> Edges:
    gains = smooth - np.minimum.accumulate(smooth)
    peak = int(gains.argmax())
    bottom = int(smooth[: peak + 1].argmin())
    low, high = smooth[bottom] + QUARTER * gains[peak], smooth[peak] - QUARTER * gains[peak]
    # Each level goes on, outwards from the extreme, as long as the curve stays in its quarter.
    outside = np.flatnonzero(smooth[:bottom] > low)
    beyond = np.flatnonzero(smooth[peak:] < high)
    between = smooth[bottom : peak + 1]
    return Edges(
        start=int(outside[-1] + 1) if len(outside) else 0,
        low=bottom + int(np.flatnonzero(between <= low)[-1]),
        high=bottom + int(np.flatnonzero(between >= high)[0]),
        end=peak + int(beyond[0]) - 1 if len(beyond) else len(smooth) - 1,
    )


def _local_share(steps: np.ndarray, fit: np.ndarray) -> float:
    """Return the largest rise within a ratio LOCAL of steps, or between two neighbouring checkpoints."""
    if len(fit) < 2:
        return 0.0
    times = np.log1p(steps)
    ahead = np.interp(np.log1p(LOCAL * steps), times, fit) - fit
    behind = fit - np.interp(np.log1p(steps / LOCAL), times, fit)
    return float(max(ahead.max(), behind.max(), np.diff(fit).max()))


def _prominence(values: np.ndarray, fit: np.ndarray, edges: Edges) -> float:
    base, top = edges.levels(values)
    low, high = base + QUARTER * (top - base), top - QUARTER * (top - base)
    gaps = max(int((fit < high).sum() - (fit <= low).sum()), 0) + 1
    moves = values[gaps:] - values[:-gaps] if gaps < len(values) else np.empty(0)
    first = np.arange(len(moves))
    elsewhere = moves[(first + gaps <= edges.low) | (first >= edges.high)]
    if not len(elsewhere):
        return 0.0
    upwards = elsewhere[elsewhere > 0]
    return (high - low) / float(np.median(upwards)) if len(upwards) else np.inf
