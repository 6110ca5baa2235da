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


def running_median(
    curves: np.ndarray, window: int = 3, *, axis: int = -1, mode: Literal["nearest", "mirror"] = "nearest"
) -> np.ndarray:
    """Return running medians along an axis of steps; beyond the ends is what scipy's `mode` says."""
    sizes = [1] * curves.ndim
    sizes[axis] = window
    return np.asarray(scipy.ndimage.median_filter(curves, size=tuple(sizes), mode=mode))


def median_noise(curves: np.ndarray) -> np.ndarray:
    """Return each curve's standard deviation that white noise leaves in its running median over three checkpoints."""
    return np.asarray(np.sqrt(c.LEFT_BY_MEDIANS) * noise(curves))


class Move(NamedTuple):
    """The largest change of a curve's level, up or down, and its noise."""

    before: float
    after: float
    noise: float


def moved(values: np.ndarray) -> Move:
    """Return the largest change of a curve between checkpoints in their order, of running medians over three."""
    smooth = running_median(values)
    rises, falls = smooth - np.minimum.accumulate(smooth), np.maximum.accumulate(smooth) - smooth
    up = rises.max() >= falls.max()
    end = int((rises if up else falls).argmax())
    before = smooth[: end + 1].min() if up else smooth[: end + 1].max()
    return Move(float(before), float(smooth[end]), float(noise(values)))
