"""The noise of a curve over checkpoints, and the curve without most of it."""

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.stats import median_abs_deviation, norm

from stagewise.table import LEVEL

QUANTILE = float(norm.ppf((1 + LEVEL) / 2))
"""Standard deviations on either side of a mean that hold 95 % of a normal distribution."""


def noise(curves: np.ndarray) -> np.ndarray:
    """Return each curve's standard deviation between checkpoints: second differences, robust to its own bends."""
    if curves.shape[-1] < 3:
        return np.zeros(curves.shape[:-1])
    spread = median_abs_deviation(np.diff(curves, 2), axis=-1, scale="normal")
    return np.asarray(spread / np.sqrt(6))


def smoothed(curves: np.ndarray) -> np.ndarray:
    """Average each checkpoint with its two neighbours; the ends stay as they are.

    >>> smoothed(np.array([0.0, 3.0, 0.0, 0.0])).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    averaged = curves.copy()
    averaged[..., 1:-1] = (curves[..., :-2] + curves[..., 1:-1] + curves[..., 2:]) / 3
    return averaged


def monotone(values: np.ndarray, *, increasing: bool = True) -> np.ndarray:
    """Return the closest curve that never falls, or never rises: isotonic regression.

    >>> monotone(np.array([0.0, 2.0, 1.0])).tolist()
    [0.0, 1.5, 1.5]
    """
    fit: np.ndarray = isotonic_regression(values, increasing=increasing).x
    return fit
