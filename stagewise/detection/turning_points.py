"""Where a curve turns up: the step with its interval, the test against "it only falls", and how far learning slowed."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import median_abs_deviation, norm
from sklearn.isotonic import isotonic_regression

from stagewise.table import LEVEL

WINDOW = 1.15
"""Speeds are falls over a step ratio of this size, per e-fold of steps: two or three checkpoints at usual spacings."""

PEAK = 5
"""A fast time falls by this many standard deviations of the noise; the largest of 100 differences rarely does."""

NEARBY = 8
"""Checkpoints on either side of the minimum whose noise decides its interval: a small KL is less noisy than a large."""

SIMULATIONS = 1000
QUANTILE = float(norm.ppf((1 + LEVEL) / 2))


class Turn(NamedTuple):
    """Where a curve is lowest, how deep the valley is, and how certain it is that there is one.

    `lo` and `hi` are the checkpoints between which the smallest value may lie (95 %): noise between checkpoints,
    resampling of the probe batch, and the distance to the next checkpoint. `p_value` is that of a rise as large as
    this on a curve that only falls.
    """

    step: int
    lo: int
    hi: int
    value: float
    fall: float
    rise: float
    p_value: float


def turn(curve: pd.DataFrame, seed: int = 0) -> Turn:
    """Find where a curve is lowest, averaged over three checkpoints.

    The null of the test is the best curve that never rises (isotonic regression) with normal noise.

    Args:
        curve: rows of one curve in the order of their steps, with `step`, `value` and, if the batch was resampled,
            `resamples`.
        seed: of the simulations under the null.
    """
    steps, values = curve["step"].to_numpy(), curve["value"].to_numpy()
    smooth, sigma = smoothed(values), noise(values)
    t = int(smooth.argmin())
    nearby = noise(values[max(t - NEARBY, 0) : t + NEARBY + 1])
    within = smooth - smooth[t] <= QUANTILE * np.hypot(nearby * np.sqrt(2 / 3), _spread(curve, t))
    outside = np.flatnonzero(~within)
    before, after = outside[outside < t], outside[outside > t]
    rise = _rise(smooth)
    monotone = isotonic_regression(smooth, increasing=False)
    draws = np.random.default_rng(seed).normal(0, sigma, (SIMULATIONS, len(steps)))
    as_large = (_rise(smoothed(monotone + draws)) >= rise).sum()
    return Turn(
        step=int(steps[t]),
        lo=int(steps[before[-1] if len(before) else 0]),
        hi=int(steps[after[0] if len(after) else -1]),
        value=float(values[t]),
        fall=float(smooth[0] - smooth[t]),
        rise=float(rise),
        p_value=float((1 + as_large) / (1 + SIMULATIONS)),
    )


def from_first_peak(curve: pd.DataFrame) -> pd.DataFrame:
    """Return the curve from its first local maximum on: a KL that starts at zero must rise before it can fall."""
    smooth = smoothed(curve["value"].to_numpy())
    falling = np.flatnonzero(np.diff(smooth) < 0)
    return curve.iloc[falling[0] :] if len(falling) else curve.iloc[-1:]


def slowdown(curve: pd.DataFrame, lo: int, hi: int) -> float:
    """Return the speed of learning at its slowest within [lo, hi], over the slower of its peaks before and after that.

    Speed is the fall over a step ratio of WINDOW; 1 means that there is no slow time between two fast ones, where a
    peak that noise could make does not count.
    """
    steps, values = curve["step"].to_numpy(), curve["value"].to_numpy()
    falls = np.interp(steps / WINDOW, steps, values) - values
    slower = np.minimum(np.maximum.accumulate(falls), np.maximum.accumulate(falls[::-1])[::-1])
    here = (steps >= lo) & (steps <= hi) & (slower > PEAK * noise(values))
    return float((falls[here] / slower[here]).clip(0, 1).min(initial=1.0))


def noise(curves: np.ndarray) -> np.ndarray:
    """Return each curve's standard deviation between checkpoints: second differences, robust to its own bends."""
    if curves.shape[-1] < 3:
        return np.zeros(curves.shape[:-1])
    spread = median_abs_deviation(np.diff(curves, 2), axis=-1, scale="normal")
    return np.asarray(spread / np.sqrt(6))


def _rise(curves: np.ndarray) -> np.ndarray:
    """Return how far each curve rises after its smallest value."""
    after = np.arange(curves.shape[-1]) >= curves.argmin(-1)[..., None]
    return np.asarray(np.where(after, curves, -np.inf).max(-1) - curves.min(-1))


def smoothed(values: np.ndarray) -> np.ndarray:
    """Average each checkpoint with its two neighbours; the ends stay as they are."""
    averaged = values.copy()
    averaged[..., 1:-1] = (values[..., :-2] + values[..., 1:-1] + values[..., 2:]) / 3
    return averaged


def _spread(curve: pd.DataFrame, t: int) -> np.ndarray | float:
    """Return the sampling error of the difference from checkpoint t, where the table has resamples of the batch."""
    if "resamples" not in curve or curve["resamples"].isna().any():
        return 0.0
    resampled = np.stack(curve["resamples"].to_list())
    return np.asarray((resampled - resampled[t]).std(1))
