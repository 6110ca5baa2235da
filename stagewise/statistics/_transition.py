"""A curve over training as arrays; a transition of it: its size, its times, the numbers that decide about it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._criteria import StageCriteria
from stagewise.statistics._noise.differences import noise, smoothed
from stagewise.statistics._noise.residual import without_outliers
from stagewise.statistics._shapes import Shapes
from stagewise.statistics._verdicts import OnsetVerdict


class Curve(NamedTuple):
    """Values at ascending steps, both float64; with `resamples` of what they were measured on, also [draw, step]."""

    steps: np.ndarray
    values: np.ndarray
    resamples: np.ndarray | None = None

    def take(self, chosen: np.ndarray | slice | list[int]) -> "Curve":
        """Return the curve at some of its checkpoints."""
        resamples = None if self.resamples is None else self.resamples[:, chosen]
        return Curve(self.steps[chosen], self.values[chosen], resamples)


def thinned(curve: Curve) -> Curve:
    """Return a curve without the checkpoints of stretches that are finer than what lies before them. Log-spaced and
    linear schedules, whose gaps do not shrink, stay as they are, and so does the last checkpoint.
    """
    steps, chosen, largest = curve.steps, [0], 0
    for i in range(1, len(steps)):
        gap = steps[i] - steps[chosen[-1]]
        if gap >= c.FINER_GAP * largest or i == len(steps) - 1:
            chosen.append(i)
            largest = max(largest, gap)
    return curve if len(chosen) == len(steps) else curve.take(chosen)


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


class Transition(NamedTuple):
    """A change of level, `size`, that a smooth background does not explain.

    `times` are u = log(1 + step) of t10, t50 and t90, each with its 95 % interval: [part, (median, lo, hi)]; `before`
    is the level of the fit at t10 without it, `after` that at t90 with all of it: what others do meanwhile is in both.
    Both lie within what the whole fit reaches.
    `change` is that of the whole fit over it, the others' included.
    `noise` is the deviation of the innovations there. `prominence` is the speed in the
    transition over the faster one before and after it, in value per step: beside the background alone, and beside other
    transitions too, the smaller ratio; `net` the change of the whole fit over it, as
    a part of `size`: another transition at the same time may undo it; `preceding` counts the checkpoints up to t10,
    `following` those from t90 on.
    `correlation` is that of the noise between checkpoints. `walk` holds the change from t10 to t90 against a random
    walk with the curve's own steps: in deviations of what that makes in as many checkpoints, beyond the largest that is
    expected in any stretch as long.
    """

    size: float
    times: np.ndarray
    before: float
    after: float
    change: float
    p_value: float
    noise: float
    prominence: float
    net: float
    preceding: int
    following: int
    correlation: float
    walk: float
    shape: Shapes

    def share(self, ratio: float) -> float:
        """Return the largest part of the way within a ratio of steps."""
        early, _, late = self.shape.times()[0]
        u = np.linspace(early - np.log(ratio), late, c.SPEED_POINTS)
        return float((self.shape.at(u + np.log(ratio)) - self.shape.at(u)).max())

    def measured(self, unit: Unit) -> "Transition":
        """Return a transition that was found in a unit, in that of its curve."""
        return self._replace(
            size=unit.size(self.size),
            before=unit.level(self.before),
            after=unit.level(self.after),
            change=unit.size(self.change),
            noise=unit.size(self.noise),
        )


class Found(NamedTuple):
    """A curve's transitions by their times, and the smallest p-value against "none"."""

    transitions: tuple[Transition, ...]
    p_value: float


def prominence(u: np.ndarray, beside: np.ndarray, size: float, shape: Shapes, others: Sequence[Shapes] = ()) -> float:
    """Return the speed of a fit inside a transition over the faster of those before and after it.

    If a transition lasts to the end of the run, its last part comes after it: a curve that grows faster and faster does
    not slow there. Transitions of one direction that follow each other without a pause, as the pieces of a straight
    line that bends, are one way: the parts before the first and after the last count, and of the slower ones the
    fastest. A pause is a gap of checkpoints between their middles in which the fit is far slower than on average there.
    """
    early, half, late = shape.times()[0]
    first, last = float(u[0]), float(u[-1])
    within = np.linspace(early, late, c.SPEED_POINTS).clip(first, last)
    dense = np.unique(np.concatenate([np.linspace(first, last, c.SPEED_POINTS), within]))
    t = np.expm1(dense)
    fit = np.sign(size) * (np.interp(dense, u, beside) + size * shape.at(dense)[0])
    middles = (dense[1:] + dense[:-1]) / 2
    inside = (middles >= early) & (middles <= late)
    fastest = (np.diff(fit) / np.diff(t))[inside].max(initial=0.0)
    steps, gaps = np.expm1(u), np.diff(np.expm1(u))
    spacing = float(np.interp(half, (u[1:] + u[:-1]) / 2, gaps))
    start, middle, end = np.expm1([early, half, late])
    way_in, way_out = max(middle - start, 2 * spacing), max(end - middle, 2 * spacing)

    def speed(lo: float, hi: float) -> float:
        lo, hi = max(lo, t[0]), min(hi, t[-1])
        if hi - lo < spacing / 2:
            return 0.0
        return float(np.diff(np.interp([lo, hi], t, fit))[0] / (hi - lo))

    speeds = np.diff(np.sign(size) * (beside + size * shape.at(u)[0])) / gaps

    def meets(lo: float, hi: float) -> np.ndarray:
        return np.asarray((steps[1:] > lo) & (steps[:-1] < hi))

    own, ratio = speeds[meets(start, end)].max(), 1.0
    for other in sorted(others, key=lambda each: abs(each.times()[0, 1] - half)):
        begins, its_half, ends = np.expm1(other.times()[0])
        apart = meets(*sorted((middle, its_half)))
        if speeds[apart].min() >= c.PAUSE * np.average(speeds[apart], weights=gaps[apart]):
            ratio = min(ratio, float(own / max(own, speeds[meets(begins, ends)].max())))
            start, end = min(start, begins), max(end, ends)
    if ratio < 1:
        return ratio

    before = speed(start - way_in, start)
    after = speed(min(end, t[-1] - 2 * spacing), end + way_out)
    around = max(before, after, 0.0)
    return float(fastest / around) if around > 0 else float("inf")


class Move(NamedTuple):
    """The largest change of a curve's level, up or down, its noise, and why it is no onset."""

    before: float
    after: float
    noise: float
    verdict: OnsetVerdict


def rejection(one: Transition, p_adjusted: float, criteria: StageCriteria, cause: str = "") -> OnsetVerdict | None:
    """Return why a transition is no onset; None where it is one."""
    if min(abs(one.size), abs(one.change)) < criteria.smallest:
        return OnsetVerdict.SMALL
    if one.net < criteria.lasting:
        return OnsetVerdict.SPIKE
    if one.preceding < criteria.preceding:
        return OnsetVerdict.EARLY
    if abs(one.size) < criteria.peak * one.noise:
        return OnsetVerdict.NOISE
    if one.share(criteria.local) < criteria.share:
        return OnsetVerdict.GRADUAL
    if one.prominence < criteria.stands_out:
        return OnsetVerdict.LATE if one.following < criteria.preceding else OnsetVerdict.COMMON
    if one.correlation >= criteria.slow and one.walk < criteria.walk:
        return OnsetVerdict.WANDERS
    if p_adjusted >= criteria.false_discoveries:
        return OnsetVerdict.STEADY
    return OnsetVerdict.COINCIDES if cause else None


def moved(values: np.ndarray, criteria: StageCriteria) -> Move:
    """Return the largest change of a curve between checkpoints in their order, averaged over three."""
    clean = without_outliers(values[None])[0] if len(values) > 1 else values
    before, after = _largest(smoothed(clean))
    spread, raw = float(noise(clean)), np.subtract(*_largest(values))
    if after == before or abs(after - before) < criteria.smallest:
        spike = abs(raw) >= max(criteria.smallest, criteria.peak * spread) and not np.array_equal(clean, values)
        return Move(before, after, spread, OnsetVerdict.SPIKE if spike else OnsetVerdict.SMALL)
    return Move(
        before,
        after,
        spread,
        OnsetVerdict.NOISE if abs(after - before) < criteria.peak * spread else OnsetVerdict.STEADY,
    )


def _largest(values: np.ndarray) -> tuple[float, float]:
    """Return the levels between which values rise or fall most."""
    rises, falls = values - np.minimum.accumulate(values), np.maximum.accumulate(values) - values
    if rises.max() >= falls.max():
        end = int(rises.argmax())
        return float(values[: end + 1].min()), float(values[end])
    end = int(falls.argmax())
    return float(values[: end + 1].max()), float(values[end])


def p_value(statistic: np.ndarray | float, n: int, correlation: np.ndarray | float) -> np.ndarray:
    """Return the probability of as large a statistic, twice the difference in log likelihood, without the transition.
    The noise's correlation is that of the fit with the transition: one that is left out looks like correlation. The
    tables are what `python -m evidence.calibration.null_table` simulates, where a class has enough curves.
    """
    median, twentieth = (_at(values, n, correlation) for values in (c.NULL_MEDIANS, c.NULL_TWENTIETHS))
    scale = (twentieth - median) / np.log(10)
    return np.asarray(0.5 * np.exp(np.minimum(-(statistic - median) / scale, np.log(2))))


def _at(values: tuple[tuple[float, ...], ...], n: int, correlation: np.ndarray | float) -> np.ndarray:
    """Interpolate a table, in the logarithm of the number of checkpoints."""
    rows = np.stack([np.interp(correlation, c.NULL_CORRELATIONS, row) for row in values])
    place = np.interp(np.log(n), np.log(c.NULL_CHECKPOINTS), np.arange(len(c.NULL_CHECKPOINTS)))
    lower = min(int(place), len(c.NULL_CHECKPOINTS) - 2)
    return np.asarray(rows[lower] + (place - lower) * (rows[lower + 1] - rows[lower]))
