"""Turning points: a minimum's step with its interval, whether the curve rises after it, how far learning slows."""

from typing import NamedTuple

import numpy as np

from stagewise.statistics import LEVEL, Signals


class Turn(NamedTuple):
    """Where a curve is lowest, how deep the valley is, and how certain it is that there is one.

    `step` is the checkpoint at which the curve without noise is lowest, `lo` and `hi` are those next to its 95 %
    interval, as the minimum may lie between checkpoints. `start`, `value`, `fall` and `rise` are of the curve without
    noise, `p_value` is the probability that it does not rise.
    """

    step: int
    lo: int
    hi: int
    start: float
    value: float
    fall: float
    rise: float
    p_value: float

    def is_later_than(self, other: "Turn") -> bool:
        """Whether the minimum lies after another one by more than the errors of both, in the log step."""
        errors = np.log1p([other.hi, self.step]) - np.log1p([other.step, self.lo])
        return bool(np.log1p(self.step) - np.log1p(other.step) > np.hypot(*errors))


def turning_point(of: Signals) -> Turn:
    """Find where a curve is lowest, and how sure it is that it rises afterwards.

    >>> from stagewise.statistics import signals
    >>> steps = np.arange(0, 600, 10)
    >>> lowest = turning_point(signals(steps, np.abs(steps - 300) / 300))
    >>> lowest.lo <= 300 <= lowest.hi, lowest.p_value < 0.01
    (True, True)
    """
    steps, mean, points, tail = of.steps, of.draws.mean(0), of.checkpoints, (1 - LEVEL) / 2
    places = np.quantile(of.draws.argmin(1), [tail, 0.5, 1 - tail], method="closest_observation")
    # Of the curve between checkpoints it is known that the minimum lies next to the lowest one.
    lo, middle, hi = np.array([points[0], *steps, points[-1]])[places + np.arange(3)]
    step = points[np.abs(points - middle).argmin()]
    value, here = float(np.interp(step, steps, mean)), int(np.abs(steps - step).argmin())
    falls = of.draws[:, here + int(mean[here:].argmax())] <= of.draws[:, here]
    return Turn(
        step=int(step),
        lo=int(points[points <= lo][-1]),
        hi=int(points[points >= hi][0]),
        start=float(mean[0]),
        value=value,
        fall=float(mean[0]) - value,
        rise=float(mean[steps >= step].max(initial=value)) - value,
        p_value=float((1 + falls.sum()) / (1 + len(falls))),
    )


def from_first_peak(of: Signals) -> Signals:
    """Return a curve from its first local maximum on: a KL that starts at zero must rise before it can fall."""
    falling = np.flatnonzero(np.diff(of.draws.mean(0)) < 0)
    return of.since(int(falling[0]) if len(falling) else len(of.steps) - 1)


def slowdown(of: Signals, lo: int, hi: int, window: int | float, peak: int | float, slow: int | float) -> float:
    """Return the speed of learning at its slowest within [lo, hi], over the slower of its peaks before and after that.

    Speed is the fall over a step ratio of `window`; 1 means that there is no slow time between two fast ones. Of draws
    of the curve the middle one counts. Missing where noise hides it: where no fall is `peak` deviations of its draws,
    or where some draws have a time as slow as `slow` and the middle one has not.
    """
    steps = of.steps
    falls = np.array([np.interp(steps / window, steps, draw) - draw for draw in of.draws])
    clear, here = falls.mean(0) > peak * falls.std(0), (steps >= lo) & (steps <= hi)
    if not (clear[steps <= hi].any() and clear[steps > hi].any()):
        return float("nan")
    before, after = (np.maximum.accumulate(falls[:, ::way], axis=1)[:, ::way] for way in (1, -1))
    slower = np.minimum(before, after)
    slowest = np.divide(falls, slower, out=np.ones_like(falls), where=slower > 0)[:, here].clip(0, 1).min(1)
    least, middle = np.quantile(slowest, [(1 - LEVEL) / 2, 0.5])
    return float("nan") if least <= slow < middle else float(middle)
