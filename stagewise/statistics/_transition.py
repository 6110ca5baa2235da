"""A transition of a curve over training, as it is found: its size and times, and the numbers that decide about it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._curve import Unit
from stagewise.statistics._shapes import Shapes


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
