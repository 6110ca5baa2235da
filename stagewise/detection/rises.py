"""Where one curve rises most: its levels, how localised it is, the reasons against an onset, and its times."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from stagewise.detection.concavity_test import acceleration
from stagewise.detection.criteria import DEFAULT, StageCriteria
from stagewise.detection.noise import QUANTILE, monotone, noise, smoothed
from stagewise.detection.thresholds import crossing_step
from stagewise.detection.verdicts import OnsetVerdict
from stagewise.table import LEVEL

PARTS = (0.1, 0.5, 0.9)
"""The parts of a rise whose times are reported: t10, t50 and t90."""

SAME = 1e-6
"""Rounding error of a step through the logarithm and back."""


class Edges(NamedTuple):
    """Indices of a rise in its curve: the level before is [start, low], the level after [high, end]."""

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
    def noise(self) -> float:
        """The larger noise of the two sides."""
        return max(self.deviation)

    def rejection(self, criteria: StageCriteria = DEFAULT) -> OnsetVerdict | None:
        """Return why this is no onset, leaving the p-value aside; None where it may be one."""
        size = self.top - self.base
        if size < criteria.smallest:
            return OnsetVerdict.SMALL
        if size < criteria.peak * self.noise:
            return OnsetVerdict.NOISE
        if self.lasting < criteria.lasting:
            return OnsetVerdict.SPIKE
        if self.share < criteria.share:
            return OnsetVerdict.GRADUAL
        if self.prominence < criteria.stands_out:
            return OnsetVerdict.COMMON
        return None


class Time(NamedTuple):
    """A step between two checkpoints, and two that hold it (95 %); hi is infinite where no checkpoint shows its end."""

    step: float
    lo: float
    hi: float


def rise(steps: np.ndarray, values: np.ndarray, criteria: StageCriteria = DEFAULT) -> Rise:
    """Measure the largest rise of a curve: between the lowest smoothed value and the highest one after it.

    Raises:
        ValueError: a value is not finite, or there is none.

    >>> steps = np.arange(0, 200, 10)
    >>> step_up = rise(steps, np.where(steps < 100, 0.1, 0.7))
    >>> step_up.base, step_up.top, step_up.rejection()
    (0.1, 0.7, None)
    """
    if not len(values) or not np.isfinite(values).all():
        raise ValueError(f"a rise is measured on finite values, got {values}")
    edges = _edges(smoothed(values), criteria.quarter)
    base, top = edges.levels(values)
    fit, nearby = monotone(values[edges.all]), criteria.neighbours
    # Where one side is short, checkpoints of the rise itself come in: they are few, and the estimate is robust.
    parts = (values[: max(edges.low + 1, nearby)], values[min(edges.high, max(len(values) - nearby, 0)) :])
    before, after = (float(noise(part)) for part in parts)
    return Rise(
        base,
        top,
        float(values[-1]),
        _local_share(steps[edges.all], fit, criteria.local) / (top - base) if top > base else 0.0,
        _prominence(values, fit, edges, criteria.quarter),
        (before, after),
        int((values[edges.all] > (base + top) / 2).sum()),
        acceleration(steps, values, edges.start, criteria) if len(values) >= criteria.fewest else 1.0,
        edges,
    )


def _edges(smooth: np.ndarray, quarter: float) -> Edges:
    gains = smooth - np.minimum.accumulate(smooth)
    peak = int(gains.argmax())
    bottom = int(smooth[: peak + 1].argmin())
    low, high = smooth[bottom] + quarter * gains[peak], smooth[peak] - quarter * gains[peak]
    # Each level extends outwards from the extreme as long as the curve stays in its quarter.
    outside = np.flatnonzero(smooth[:bottom] > low)
    beyond = np.flatnonzero(smooth[peak:] < high)
    between = smooth[bottom : peak + 1]
    return Edges(
        start=int(outside[-1] + 1) if len(outside) else 0,
        low=bottom + int(np.flatnonzero(between <= low)[-1]),
        high=bottom + int(np.flatnonzero(between >= high)[0]),
        end=peak + int(beyond[0]) - 1 if len(beyond) else len(smooth) - 1,
    )


def _local_share(steps: np.ndarray, fit: np.ndarray, ratio: float) -> float:
    """Return the largest rise within a ratio of steps, or between two neighbouring checkpoints."""
    if len(fit) < 2:
        return 0.0
    times = np.log1p(steps)
    ahead = np.interp(np.log1p(ratio * steps), times, fit) - fit
    behind = fit - np.interp(np.log1p(steps / ratio), times, fit)
    return float(max(ahead.max(), behind.max(), np.diff(fit).max()))


def _prominence(values: np.ndarray, fit: np.ndarray, edges: Edges, quarter: float) -> float:
    base, top = edges.levels(values)
    low, high = base + quarter * (top - base), top - quarter * (top - base)
    gaps = max(int((fit < high).sum() - (fit <= low).sum()), 0) + 1
    moves = values[gaps:] - values[:-gaps] if gaps < len(values) else np.empty(0)
    first = np.arange(len(moves))
    elsewhere = moves[(first + gaps <= edges.low) | (first >= edges.high)]
    if not len(elsewhere):
        return 0.0
    upwards = elsewhere[elsewhere > 0]
    return (high - low) / float(np.median(upwards)) if len(upwards) else np.inf


def rise_times(
    curve: pd.DataFrame, largest: Rise, criteria: StageCriteria = DEFAULT, seed: int = 0
) -> tuple[Time, Time, Time]:
    """Return t10, t50 and t90: when an isotonic fit passes these parts of the way between the medians around it.

    The intervals come from curves with new noise and, where the table has them, resamples of the batch (or else `lo`
    and `hi`, taken as independent), and are widened to the checkpoints around them: what happens between two
    checkpoints is unknown.

    Args:
        curve: rows of one curve in the order of their steps, with `step` and `value`, upwards being good.
        largest: its rise.
        criteria: `resamples` counts.
        seed: of the noise.
    """
    steps, values = curve["step"].to_numpy(float), curve["value"].to_numpy(float)
    edges = largest.edges
    fit = values.copy()
    fit[edges.all] = monotone(values[edges.all])
    sigma = np.where(np.arange(len(values)) <= (edges.low + edges.high) / 2, *largest.deviation)
    generator = np.random.default_rng(seed)
    drawn = fit + generator.standard_normal((criteria.resamples, len(values))) * sigma
    drawn += _sampling(curve, criteria.resamples, generator)
    draws = np.array([_passed(steps, draw, largest) for draw in drawn])
    t10, t50, t90 = (
        _time(step, times, steps) for step, times in zip(_passed(steps, values, largest), draws.T, strict=True)
    )
    return t10, t50, t90


def _passed(steps: np.ndarray, values: np.ndarray, largest: Rise) -> list[float]:
    """Return when the isotonic fit first passes each part of the rise."""
    (base, top), part = largest.edges.levels(values), largest.edges.all
    fit = monotone(values[part])
    return [crossing_step(steps[part], fit, float(level)) for level in base + np.array(PARTS) * (top - base)]


def _time(step: float, draws: np.ndarray, steps: np.ndarray) -> Time:
    tail = (1 - LEVEL) / 2
    lo, hi = np.quantile(draws, (tail, 1 - tail))
    before, after = steps[steps <= min(lo, step) + SAME], steps[steps >= max(hi, step) - SAME]
    # The last checkpoint alone does not show that a level was reached for good.
    return Time(step, float(before[-1]), float(after[0]) if len(after) > 1 else float("inf"))


def _sampling(curve: pd.DataFrame, resamples: int, generator: np.random.Generator) -> np.ndarray | float:
    """Return what resamples of the probe batch add to the curve: [resample, step]."""
    if "resamples" in curve and curve["resamples"].notna().all():
        resampled = np.stack(curve["resamples"].to_list()).T
        return np.asarray(generator.choice(resampled, resamples) - curve["value"].to_numpy(float))
    if {"lo", "hi"} <= set(curve.columns) and curve[["lo", "hi"]].notna().all(axis=None):
        deviation = (curve["hi"] - curve["lo"]).to_numpy(float) / (2 * QUANTILE)
        return np.asarray(deviation * generator.standard_normal((resamples, len(curve))))
    return 0.0
