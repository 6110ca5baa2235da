"""The noise of a curve between its checkpoints, told from neighbours, and how far the curve moves beside it."""

from typing import Literal, NamedTuple

import numpy as np
import scipy

from stagewise.statistics import _constants as c


def noise(curves: np.ndarray) -> np.ndarray:
    """Return each curve's standard deviation between checkpoints: second differences, robust to its own bends."""
    if curves.shape[-1] < 3:
        return np.zeros(curves.shape[:-1])
    spread = scipy.stats.median_abs_deviation(np.diff(curves, 2), axis=-1, scale="normal")
    return np.asarray(spread / np.sqrt(6))


def correlation(curves: np.ndarray) -> np.ndarray:
    """Return each curve's lag-1 correlation between checkpoints, from second differences of one and of two checkpoints.

    For AR(1) noise their variances are as (1 + r)(3 - r^2) to 3 - r; what bends more than that counts as correlation.

    >>> bool(correlation(np.random.default_rng(0).standard_normal(4000)) < 0.1)
    True
    """
    if curves.shape[-1] < 8:
        return np.zeros(curves.shape[:-1])
    near, far = np.diff(curves, 2), curves[..., 4:] - 2 * curves[..., 2:-2] + curves[..., :-4]
    spread = [scipy.stats.median_abs_deviation(part, axis=-1, scale="normal") for part in (near, far)]
    ratio = np.divide(spread[1], spread[0], out=np.ones_like(spread[0]), where=spread[0] > 0) ** 2
    return np.asarray(np.interp(ratio, (1 + c.RATES) * (3 - c.RATES**2) / (3 - c.RATES), c.RATES))


def running_median(
    curves: np.ndarray, window: int = 3, *, axis: int = -1, mode: Literal["nearest", "mirror"] = "nearest"
) -> np.ndarray:
    """Return running medians along an axis of steps; beyond the ends is what scipy's `mode` says."""
    sizes = [1] * curves.ndim
    sizes[axis] = window
    return np.asarray(scipy.ndimage.median_filter(curves, size=tuple(sizes), mode=mode))


def monotone(values: np.ndarray, *, increasing: bool = True) -> np.ndarray:
    """Return the closest curve that never falls, or never rises: isotonic regression."""
    fit: np.ndarray = scipy.optimize.isotonic_regression(values, increasing=increasing).x
    return fit


def median_noise(roots: np.ndarray) -> np.ndarray:
    """Return the variance of what noise leaves in running medians of curves [step, ...]: [...]."""
    curves = np.moveaxis(roots, 0, -1)
    rate = min(float(np.median(correlation(curves))), c.SLOWEST)
    # Second differences see less of slow noise, and running medians leave more of it.
    return np.asarray(
        noise(curves) ** 2 * 6 / (6 - 8 * rate + 2 * rate**2) * (c.LEFT_BY_MEDIANS + (1 - c.LEFT_BY_MEDIANS) * rate)
    )


class Move(NamedTuple):
    """The largest change of a curve's level, up or down, and its noise."""

    before: float
    after: float
    noise: float


def moved(values: np.ndarray) -> Move:
    """Return the largest change of a curve between checkpoints in their order, of running medians over three."""
    return Move(*_largest(running_median(values)), float(noise(values)))


def _largest(values: np.ndarray) -> tuple[float, float]:
    """Return the levels between which values rise or fall most."""
    rises, falls = values - np.minimum.accumulate(values), np.maximum.accumulate(values) - values
    if rises.max() >= falls.max():
        end = int(rises.argmax())
        return float(values[: end + 1].min()), float(values[end])
    end = int(falls.argmax())
    return float(values[: end + 1].max()), float(values[end])
