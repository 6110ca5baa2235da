"""The noise of a curve about a model of it: correlated between checkpoints, of a level that changes, with outliers."""

import functools
from typing import NamedTuple

import numpy as np
from scipy.ndimage import median_filter
from scipy.stats import median_abs_deviation

CORRELATIONS = (-0.2, 0.0, 0.2, 0.4, 0.55, 0.7, 0.8, 0.88, 0.94, 0.98)
"""Lag-1 correlations between checkpoints that are tried."""

GROWTHS = (0.0, -1.2, 1.2, -2.4, 2.4)
"""Changes of the logarithm of the noise's level over the run that are tried."""

LONGEST = 3
"""Checkpoints that an outlier lasts at most."""

STANDS_OUT = 4.5
"""Deviations of the noise from which a value that returns within LONGEST checkpoints is an outlier."""


class Noise(NamedTuple):
    """A kind of noise over checkpoints: AR(1) in their order, its deviation exponential in their number.

    >>> Noise(0.5, 0.0).whitened(np.array([[1.0, 0.5, 0.25]])).round(6).tolist()
    [[1.0, 0.0, 0.0]]
    """

    correlation: float
    growth: float

    def whitened(self, curves: np.ndarray) -> np.ndarray:
        """Return curves [..., step] under the linear map that makes this noise white, of one level."""
        result = curves / _deviation(self.growth, curves.shape[-1])
        result[..., 1:] -= self.correlation * result[..., :-1]
        result[..., 1:] /= np.sqrt(1 - self.correlation**2)
        return np.asarray(result)

    def transposed(self, curves: np.ndarray) -> np.ndarray:
        """Return curves [..., step] under the transpose of that map.

        What is whitened times what is whitened is this of the one times the other as it is.
        """
        result = curves.copy()
        result[..., 1:] /= np.sqrt(1 - self.correlation**2)
        result[..., :-1] -= self.correlation * result[..., 1:]
        return np.asarray(result / _deviation(self.growth, curves.shape[-1]))

    def log_likelihood(self, squares: np.ndarray, n: int, freedom: int | None = None) -> np.ndarray:
        """Return the likelihood of noise whose level is estimated, from the sum of whitened squares.

        `freedom` counts the checkpoints that the fit leaves; all where it is None.
        """
        determinant = 0.5 * (n - 1) * np.log(1 - self.correlation**2) + np.log(_deviation(self.growth, n)).sum()
        return np.asarray(-0.5 * (freedom or n) * np.log(squares / n) - determinant)


WHITE = Noise(0.0, 0.0)
KINDS = tuple(Noise(correlation, growth) for correlation in CORRELATIONS for growth in GROWTHS)
"""The kinds of noise that are tried."""


@functools.lru_cache(maxsize=512)
def _deviation(growth: float, n: int) -> np.ndarray:
    return np.exp(growth * np.linspace(-0.5, 0.5, n))


def likelihoods(residuals: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """Return the likelihood of each kind of noise for rows of residuals: [kind, curve]."""
    n = residuals.shape[-1]
    return np.stack([kind.log_likelihood((kind.whitened(residuals) ** 2).sum(-1) + floor, n) for kind in KINDS])


def without_outliers(curves: np.ndarray) -> np.ndarray:
    """Return curves [curve, step] with outliers of at most three checkpoints replaced by a running median.

    A monotone part is its own running median, so that a rise loses nothing.
    """
    size = 2 * LONGEST + 1
    if curves.shape[-1] < 2 * size:
        return curves
    middle = median_filter(curves, size=(1, size), mode="nearest")
    # Near an end a median over seven would hold fewer values of one side.
    middle[:, :LONGEST], middle[:, -LONGEST:] = curves[:, :LONGEST], curves[:, -LONGEST:]
    away = curves - middle
    moves = 1.4826 * np.median(np.abs(np.diff(curves, axis=-1)), axis=-1, keepdims=True)
    spread = median_abs_deviation(away[:, LONGEST:-LONGEST], axis=-1, scale="normal")[:, None]
    limit = STANDS_OUT * np.maximum(moves, spread)
    cleaned = np.where(np.abs(away) > limit, middle, curves)
    # Whether two values at the end begin a new level or are outliers cannot be told.
    level, steady = (
        np.median(cleaned[:, -5:-2], -1, keepdims=True),
        np.ptp(cleaned[:, -5:-2], -1, keepdims=True) < limit,
    )
    cleaned[:, -2:] = np.where(steady & (np.abs(cleaned[:, -2:] - level) > limit), level, cleaned[:, -2:])
    return cleaned
