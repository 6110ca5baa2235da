"""Turning points: a minimum's step with its interval, the test against "it only falls", how far learning slows."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from stagewise.detection.criteria import DEFAULT, StageCriteria
from stagewise.detection.noise import QUANTILE, monotone, noise, smoothed
from stagewise.detection.verdicts import TurnVerdict


class Turn(NamedTuple):
    """Where a curve is lowest, how deep the valley is, and how certain it is that there is one.

    `lo` and `hi` are the checkpoints between which the smallest value may lie (95 %): noise between checkpoints,
    resampling of the probe batch, and the distance to the next checkpoint. `start` is the first value, `p_value` that
    of a rise as large as this on a curve that only falls.
    """

    step: int
    lo: int
    hi: int
    start: float
    value: float
    fall: float
    rise: float
    p_value: float

    def rejection(self, criteria: StageCriteria = DEFAULT) -> TurnVerdict | None:
        """Return why this minimum does not count as a turning point; None where it does."""
        if self.fall <= criteria.approach * self.start:
            return TurnVerdict.NOT_APPROACHED
        if self.rise < criteria.depth * self.fall:
            return TurnVerdict.NO_RISE
        if self.p_value >= criteria.significance:
            return TurnVerdict.NOISE
        return None


def turn(curve: pd.DataFrame, criteria: StageCriteria = DEFAULT, seed: int = 0) -> Turn:
    """Find where a curve is lowest, averaged over three checkpoints.

    The null of the test is the best curve that never rises (isotonic regression) with normal noise.

    Args:
        curve: rows of one curve in the order of their steps, with `step`, `value` and, if the batch was resampled,
            `resamples`.
        criteria: `neighbours` and `simulations` count.
        seed: of the simulations under the null.
    """
    steps, values = curve["step"].to_numpy(), curve["value"].to_numpy()
    smooth, sigma = smoothed(values), noise(values)
    t = int(smooth.argmin())
    nearby = noise(values[max(t - criteria.neighbours, 0) : t + criteria.neighbours + 1])
    within = smooth - smooth[t] <= QUANTILE * np.hypot(nearby * np.sqrt(2 / 3), _spread(curve, t))
    outside = np.flatnonzero(~within)
    before, after = outside[outside < t], outside[outside > t]
    rise = _rise(smooth)
    draws = np.random.default_rng(seed).normal(0, sigma, (criteria.simulations, len(steps)))
    as_large = (_rise(smoothed(monotone(smooth, increasing=False) + draws)) >= rise).sum()
    return Turn(
        step=int(steps[t]),
        lo=int(steps[before[-1] if len(before) else 0]),
        hi=int(steps[after[0] if len(after) else -1]),
        start=float(values[0]),
        value=float(values[t]),
        fall=float(smooth[0] - smooth[t]),
        rise=float(rise),
        p_value=float((1 + as_large) / (1 + criteria.simulations)),
    )


def from_first_peak(curve: pd.DataFrame) -> pd.DataFrame:
    """Return the curve from its first local maximum on: a KL that starts at zero must rise before it can fall."""
    smooth = smoothed(curve["value"].to_numpy())
    falling = np.flatnonzero(np.diff(smooth) < 0)
    return curve.iloc[falling[0] :] if len(falling) else curve.iloc[-1:]


def slowdown(curve: pd.DataFrame, lo: int, hi: int, criteria: StageCriteria = DEFAULT) -> float:
    """Return the speed of learning at its slowest within [lo, hi], over the slower of its peaks before and after that.

    Speed is the fall over a step ratio of `window`; 1 means that there is no slow time between two fast ones, where a
    peak that noise could make does not count.
    """
    steps, values = curve["step"].to_numpy(), curve["value"].to_numpy()
    falls = np.interp(steps / criteria.window, steps, values) - values
    slower = np.minimum(np.maximum.accumulate(falls), np.maximum.accumulate(falls[::-1])[::-1])
    here = (steps >= lo) & (steps <= hi) & (slower > criteria.peak * noise(values))
    return float((falls[here] / slower[here]).clip(0, 1).min(initial=1.0))


def _rise(curves: np.ndarray) -> np.ndarray:
    """Return how far each curve rises after its smallest value."""
    after = np.arange(curves.shape[-1]) >= curves.argmin(-1)[..., None]
    return np.asarray(np.where(after, curves, -np.inf).max(-1) - curves.min(-1))


def _spread(curve: pd.DataFrame, t: int) -> np.ndarray | float:
    """Return the sampling error of the difference from checkpoint t, where the table has resamples of the batch."""
    if "resamples" not in curve or curve["resamples"].isna().any():
        return 0.0
    resampled = np.stack(curve["resamples"].to_list())
    return np.asarray((resampled - resampled[t]).std(1))
