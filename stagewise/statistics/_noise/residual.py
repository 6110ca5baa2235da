"""The noise of a curve about a model of it: correlated between checkpoints, of a level that changes, with outliers."""

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from stagewise.statistics import _constants as c
from stagewise.statistics._noise.differences import running_median


class Window(NamedTuple):
    """Checkpoints from a part of their number to another one, where the noise has exp(raised) times the level."""

    start: float
    stop: float
    raised: float


class Noise(NamedTuple):
    """A kind of noise over checkpoints: AR(1) in their order, its deviation exponential in their number.

    Or of one level, which is raised within a window.

    >>> Noise(0.5, 0.0).whitened(np.array([[1.0, 0.5, 0.25]])).round(6).tolist()
    [[1.0, 0.0, 0.0]]
    """

    correlation: float
    growth: float
    window: Window | None = None

    @property
    def surprise(self) -> float:
        """Nats that are taken off the likelihood."""
        return 0.0 if self.window is None else c.RARE

    def level(self, checkpoint: float, n: int) -> float:
        """Return the deviation at a checkpoint of n, counted from 0, over the geometric mean of all."""
        return float(np.interp(checkpoint, np.arange(n), _deviation(self.growth, self.window, n)))

    def whitened(self, curves: np.ndarray) -> np.ndarray:
        """Return curves [..., step] under the linear map that makes this noise white, of one level."""
        here, before = _factors(self, curves.shape[-1])
        result = here * curves
        result[..., 1:] -= before * curves[..., :-1]
        return np.asarray(result)

    def transposed(self, curves: np.ndarray) -> np.ndarray:
        """Return curves [..., step] under the transpose of that map. The product of two whitened arrays is this
        transform of the one times the other as it is.
        """
        here, before = _factors(self, curves.shape[-1])
        result = here * curves
        result[..., :-1] -= before * curves[..., 1:]
        return np.asarray(result)


WHITE = Noise(0.0, 0.0)


def _windows() -> Iterator[Window]:
    """Yield the windows that are tried."""
    for length in c.WINDOWS:
        starts = np.arange(0, 1 - length + 1e-9, length / 2).tolist()
        yield from (Window(start, start + length, raised) for start in starts for raised in c.RAISED)
    for place in np.arange(c.EIGHTH, 1, c.EIGHTH).tolist():
        yield from (Window(start, stop, raised) for start, stop in ((0.0, place), (place, 1.0)) for raised in c.RAISED)


SMOOTH = tuple(Noise(correlation, growth) for correlation in c.NOISE_CORRELATIONS for growth in c.GROWTHS)
"""Kinds of noise whose level changes smoothly, if it does."""

KINDS = (*SMOOTH, *(Noise(correlation, 0.0, window) for correlation in c.IN_WINDOWS for window in _windows()))
"""The kinds of noise that are tried."""

_LEVELS = tuple(dict.fromkeys(noise[1:] for noise in KINDS))
_LEVEL = np.array([_LEVELS.index(noise[1:]) for noise in KINDS])
_CORRELATION = np.array([noise.correlation for noise in KINDS])
_SURPRISE = np.array([noise.surprise for noise in KINDS])


@functools.lru_cache(maxsize=512)
def _factors(noise: Noise, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return by what whitening multiplies each value, [step], and the one before it, [step - 1]."""
    inverse, innovation = 1 / _deviation(noise.growth, noise.window, n), 1 / np.sqrt(1 - noise.correlation**2)
    return inverse * np.append(1.0, np.full(n - 1, innovation)), noise.correlation * innovation * inverse[:-1]


@functools.lru_cache(maxsize=512)
def _deviation(growth: float, window: Window | None, n: int) -> np.ndarray:
    if window is None:
        return np.exp(growth * np.linspace(-0.5, 0.5, n))
    start = min(round(window.start * n), max(n - c.NARROWEST_WINDOW, 0))
    within = np.arange(n) - start
    raised = window.raised * ((within >= 0) & (within < max(round(window.stop * n) - start, c.NARROWEST_WINDOW)))
    return np.asarray(np.exp(raised - raised.mean()))


def log_likelihood(
    squares: np.ndarray, n: int, correlation: float | np.ndarray, freedom: int | np.ndarray | None = None
) -> np.ndarray:
    """Return the likelihood of n values of noise whose level is estimated, `freedom` of them left by the fit."""
    # The logarithms of the deviations, which would be part of the determinant, sum to zero.
    determinant = 0.5 * (n - 1) * np.log(1 - correlation**2)
    return np.asarray(-0.5 * (n if freedom is None else freedom) * np.log(squares / n) - determinant)


def likelihoods(residuals: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """Return the likelihood of each kind of noise for rows of residuals: [kind, curve]."""
    squares = _whitened_squares(residuals) + floor
    return np.asarray(log_likelihood(squares, residuals.shape[-1], _CORRELATION[:, None]) - _SURPRISE[:, None])


def restricted_likelihoods(
    curve: np.ndarray, columns: np.ndarray, floor: float, kinds: Sequence[Noise] = KINDS
) -> np.ndarray:
    """Return the restricted (residual) log likelihood of kinds of noise beside columns [column, step]: [kind].

    Fitting columns takes up slow noise, which the likelihood of the residuals alone takes for none.

    Source: Patterson and Thompson (1971), Recovery of inter-block information when block sizes are unequal.
    """
    rows = np.concatenate([columns, curve[None]])
    whitened = np.stack([noise.whitened(rows) for noise in kinds])
    products = whitened @ whitened.swapaxes(1, 2)
    sizes, vectors = np.linalg.eigh(products[:, :-1, :-1])
    kept = sizes > c.DEPENDENT * sizes[:, -1:]
    sizes = np.where(kept, sizes, 1.0)
    along = (vectors.swapaxes(1, 2) @ products[:, :-1, -1:])[..., 0]
    squares = products[:, -1, -1] - (kept * along**2 / sizes).sum(-1)
    n, freedom = len(curve), (len(curve) - kept.sum(-1)).clip(min=3)
    correlation, surprise = np.array([(noise.correlation, noise.surprise) for noise in kinds]).T
    likelihood = log_likelihood(squares.clip(min=0) + floor, n, correlation, freedom) - surprise
    return np.asarray(likelihood - 0.5 * np.log(sizes).sum(-1))


def _whitened_squares(curves: np.ndarray) -> np.ndarray:
    """Return the sum of squares of curves [curve, step] that each kind of noise has whitened: [kind, curve]."""
    level = curves / np.stack([_deviation(*each, curves.shape[-1]) for each in _LEVELS])[:, None]
    # For all correlations from the same four sums.
    first, later, former = level[..., 0] ** 2, (level[..., 1:] ** 2).sum(-1), (level[..., :-1] ** 2).sum(-1)
    along = (level[..., 1:] * level[..., :-1]).sum(-1)
    first, later, former, along = (sums[_LEVEL] for sums in (first, later, former, along))
    rate = _CORRELATION[:, None]
    return np.asarray(first + (later - 2 * rate * along + rate**2 * former) / (1 - rate**2))


def without_outliers(curves: np.ndarray) -> np.ndarray:
    """Return curves [curve, step] with outliers of at most three checkpoints replaced by a running median.

    A monotone part is its own running median, so that a rise loses nothing. Where many lie near one another the noise
    is raised, and they stay: the median's values would look like steps.
    """
    size = 2 * c.LONGEST + 1
    if curves.shape[-1] < 2 * size:
        return curves
    away = curves - _running_median(curves)
    moves = c.NORMAL * np.median(np.abs(np.diff(curves, axis=-1)), axis=-1, keepdims=True)
    spread = scipy.stats.median_abs_deviation(away[:, c.LONGEST : -c.LONGEST], axis=-1, scale="normal")[:, None]
    usual = np.maximum(moves, spread)
    for row in np.flatnonzero(usual == 0):
        usual[row] = _of_those_that_move(away[row, c.LONGEST : -c.LONGEST])
    limit = c.STANDS_OUT * usual
    suspects = np.abs(away) > limit
    # On a steep part a spike moves the median of its neighbours, too: taken again, it has a line in place of the spike.
    middle = _running_median(_bridged(curves, suspects))
    out = suspects & (np.abs(curves - middle) > limit)
    near = scipy.ndimage.convolve1d(out.astype(int), np.ones(c.BURST, int), axis=-1, mode="constant")
    cleaned = np.where(out & (near <= c.LONGEST), middle, curves)
    return _without_last(cleaned, limit)


def _without_last(curves: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Return curves whose last two values have the level of the three before, where these are steady, and they far off.

    Whether two values at the end begin a new level or are outliers cannot be told, unless they lie where the three
    before lead, or farther in the direction in which these clearly moved.
    """
    before, last = curves[:, -5:-2], curves[:, -2:]
    level, move = np.median(before, -1, keepdims=True), before[:, -1:] - before[:, :1]
    away = last - level
    led = np.abs(away - move * np.array([1.0, 1.5])) <= limit
    farther = (np.sign(away) == np.sign(move)) & (np.abs(move) > limit / 2)
    out = (np.ptp(before, -1, keepdims=True) < limit) & (np.abs(away) > limit) & ~led & ~farther
    return np.concatenate([curves[:, :-2], np.where(out, level, last)], axis=1)


def _of_those_that_move(away: np.ndarray) -> float:
    """Return the deviation, where it is not there, of a curve that is mostly at its running median."""
    nonzero = np.abs(away[away != 0])
    return c.NORMAL * float(np.median(nonzero)) if len(nonzero) > 2 * c.LONGEST else 0.0


def _running_median(curves: np.ndarray) -> np.ndarray:
    middle = running_median(curves, 2 * c.LONGEST + 1)
    # Near an end a median over seven would hold fewer values of one side.
    middle[:, : c.LONGEST], middle[:, -c.LONGEST :] = curves[:, : c.LONGEST], curves[:, -c.LONGEST :]
    return np.asarray(middle)


def _bridged(curves: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Return curves with some values replaced by lines between those that stay."""
    result, places = curves.copy(), np.arange(curves.shape[-1])
    for row, leaves in zip(result, out, strict=True):
        row[leaves] = np.interp(places[leaves], places[~leaves], row[~leaves])
    return result
