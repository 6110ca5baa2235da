"""A scan for one more transition: the likelihood of every transition of a grid over every smooth background."""

import dataclasses
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from cachetools import LRUCache, cached

from stagewise.statistics import _constants as c
from stagewise.statistics._noise.residual import KINDS, WHITE, Noise, likelihoods, log_likelihood
from stagewise.statistics._shapes import Shapes, backgrounds, grid

PART = 64
"""Transitions that are computed, or whose squares are summed, at a time."""

WHOLE, BACKGROUNDS, PRODUCTS = 32 * 2**20, 6 * 2**20, 12 * 2**20
"""Bytes that are remembered: of grids, of backgrounds under kinds of noise, and of their products with the grid. With
400 checkpoints one takes 17 megabytes, 0.1 to 1, and 0.5 to 2."""

KEPT = 16 * 2**20
"""Bytes of all these that may stay once a table is searched, for the next one with the same checkpoints."""

Squares = tuple[np.ndarray, np.ndarray, np.ndarray]
"""For each curve: the sum of whitened squares that the best fit leaves, its background, its transition."""


class Bases(NamedTuple):
    """Backgrounds (one in `every` of the coarse ones) and transitions at checkpoints, where u is log(1 + step)."""

    steps: tuple[float, ...]
    every: int
    u: np.ndarray
    coarse: np.ndarray
    fine: np.ndarray
    shapes: Shapes
    transitions: np.ndarray


class Fits(NamedTuple):
    """The best fit of each curve: its log likelihood, the number of its noise in KINDS, background and transition."""

    likelihood: np.ndarray
    kind: np.ndarray
    background: np.ndarray
    shape: np.ndarray

    @property
    def correlation(self) -> np.ndarray:
        """Lag-1 correlation of the noise."""
        return np.array([KINDS[kind].correlation for kind in self.kind])


class Whitened(NamedTuple):
    """Orthonormal whitened columns: those that all backgrounds share, and what each background has outside them.

    Shared are the offset and other transitions, [column, step]; each background has one column of its own,
    [background, step], which is 0 where the shared ones explain it.
    """

    noise: Noise
    shared: np.ndarray
    own: np.ndarray

    def beside(self, others: np.ndarray) -> "Whitened":
        """Return them with further shared columns [column, step]."""
        if not len(others):
            return self
        shared = self.shared
        for other in self.noise.whitened(others):
            shared = np.concatenate([shared, _outside(other[None], shared)])
        return Whitened(self.noise, shared, _outside(self.own, shared[len(self.shared) :]))

    def remaining(self, values: np.ndarray) -> np.ndarray:
        """Return the squares of whitened curves outside the columns: [curve, background]."""
        shared = (values**2).sum(-1) - ((values @ self.shared.T) ** 2).sum(-1)
        return np.asarray(shared[:, None] - (values @ self.own.T) ** 2)


@dataclasses.dataclass(frozen=True)
class Within:
    """Whitened transitions within whitened columns. Their parts in the shared columns, [column, transition], and in
    each background's own, [background, transition]; their sums of squares, [transition].
    """

    shared: np.ndarray
    own: np.ndarray
    size: np.ndarray

    @functools.cached_property
    def outside(self) -> np.ndarray:
        """Their squares outside the columns, infinite where these explain one: [background, transition]."""
        outside = (self.size - (self.shared**2).sum(0)) - self.own**2
        return np.where(outside > c.COLLINEAR * self.size, outside, np.inf)


def cache(most: int) -> "LRUCache[Any, Any]":
    """Return room for so many bytes of the last results; the newest one stays, however large."""
    # A result larger than the whole room would not be kept at all: it counts as just filling it.
    return LRUCache(most, lambda result: min(nbytes(result), most))


def nbytes(result: Any) -> int:
    """Return the bytes of an array, or of those in a tuple."""
    return sum(map(nbytes, result)) if isinstance(result, tuple) else getattr(result, "nbytes", 0)


def bases(steps: tuple[float, ...], every: int = 1) -> Bases:
    """Return the shapes that are fitted to curves with these steps."""
    whole = _bases(steps)
    return whole if every == 1 else whole._replace(every=every, coarse=whole.coarse[::every])


@cached(cache(WHOLE), lock=threading.Lock())
def _bases(steps: tuple[float, ...]) -> Bases:
    times, shapes = np.asarray(steps), grid(steps)
    u = np.log1p(times)
    transitions = np.empty((shapes.number, len(u)))
    for part in np.array_split(np.arange(shapes.number), shapes.number // PART + 1):
        transitions[part] = shapes.take(part).at(u)
    return Bases(
        steps, 1, u, backgrounds(times, c.COARSE_SCALES), backgrounds(times, c.FINE_SCALES), shapes, transitions
    )


def floors(curves: np.ndarray) -> np.ndarray:
    """Return the sum of squares that is added to every residual: [curve]."""
    return np.asarray((c.UNEXPLAINED * np.ptp(curves, axis=-1) + 1e-12) ** 2 * curves.shape[-1])


def design(background: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return a background [step] with an offset and the other columns: [column, step]."""
    return np.concatenate([np.ones((1, len(background))), background[None], others])


def whiten(backgrounds: np.ndarray, others: np.ndarray, noise: Noise) -> Whitened:
    """Return backgrounds [background, step] beside an offset and others [column, step], whitened and orthonormal."""
    steps = backgrounds.shape[-1]
    offset = _outside(noise.whitened(np.ones((1, steps))), np.empty((0, steps)))
    return Whitened(noise, offset, _outside(noise.whitened(backgrounds), offset)).beside(others)


def _outside(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the parts of rows outside orthonormal columns, to length one, or 0 (Gram and Schmidt, twice)."""
    rest = rows
    for _ in range(2):
        rest = rest - (rest @ columns.T) @ columns
    length, size = (np.sqrt((part**2).sum(-1, keepdims=True)) for part in (rest, rows))
    return np.asarray(rest / np.where(length > c.EXPLAINED * size, length, np.inf))


def scanned(curves: np.ndarray, columns: Whitened, transitions: np.ndarray) -> np.ndarray:
    """Return the squares that remain with each background and each transition: [curve, background, transition]."""
    candidates, values = columns.noise.whitened(transitions), columns.noise.whitened(curves)
    within = Within(columns.shared @ candidates.T, columns.own @ candidates.T, (candidates**2).sum(-1))
    return _remaining(values, columns, values @ candidates.T, within)


def _remaining(values: np.ndarray, columns: Whitened, along: np.ndarray, within: Within) -> np.ndarray:
    """Return the result of `scanned`, from the products of curves and transitions, [curve, transition]."""
    # Only what the columns leave of a transition can lower the squares: its part outside them, squared, over its size.
    beside = along - (values @ columns.shared.T) @ within.shared
    gain = (values @ columns.own.T)[..., None] * within.own
    np.subtract(beside[:, None], gain, out=gain)
    gain *= gain
    gain /= within.outside
    # Rounding can leave less than nothing of a curve that is fitted exactly.
    squares = np.subtract(columns.remaining(values)[..., None], gain, out=gain)
    return np.asarray(squares.clip(min=0, out=squares))


@cached(cache(BACKGROUNDS), lock=threading.Lock())
def smooth_columns(steps: tuple[float, ...], every: int, kind: int, *, fine: bool) -> Whitened:
    """Return the backgrounds of a run, beside an offset alone, under a kind of noise."""
    basis = bases(steps, every)
    return whiten(basis.fine if fine else basis.coarse, _none(basis), KINDS[kind])


@cached(cache(BACKGROUNDS), lock=threading.Lock())
def _sizes(steps: tuple[float, ...], kind: int) -> np.ndarray:
    """Return the sums of squares of the transitions of the grid, whitened: [transition]."""
    transitions = bases(steps).transitions
    parts = np.array_split(transitions, len(transitions) // PART + 1)
    return np.concatenate([(KINDS[kind].whitened(part) ** 2).sum(-1) for part in parts])


@cached(cache(PRODUCTS), lock=threading.Lock())
def _in_backgrounds(steps: tuple[float, ...], every: int, kind: int) -> np.ndarray:
    """Return the parts of the whitened transitions of the grid in the coarse backgrounds: [background, transition]."""
    own = smooth_columns(steps, every, kind, fine=False).own
    return np.asarray(KINDS[kind].transposed(own) @ bases(steps, every).transitions.T)


def _within(basis: Bases, kind: int, columns: Whitened) -> Within:
    """Return the transitions of the grid within columns, the coarse backgrounds' beside others."""
    smooth, transitions = smooth_columns(basis.steps, basis.every, kind, fine=False), basis.transitions
    shared = columns.noise.transposed(columns.shared) @ transitions.T
    # A background's column is that beside the offset alone, less the others' parts, over the length that is left.
    length = (smooth.own * columns.own).sum(-1, keepdims=True)
    own = _in_backgrounds(basis.steps, basis.every, kind) - (smooth.own @ columns.shared.T) @ shared
    return Within(shared, own / np.where(length > 0, length, np.inf), _sizes(basis.steps, kind))


def smooth_fits(curves: np.ndarray, basis: Bases, floor: np.ndarray, others: np.ndarray | None = None) -> Fits:
    """Fit curves [curve, step] by the best background, without a further transition but the others."""
    beside = _none(basis) if others is None else others

    def fit(part: np.ndarray, kind: int) -> Squares:
        columns = smooth_columns(basis.steps, basis.every, kind, fine=True).beside(beside)
        squares = columns.remaining(KINDS[kind].whitened(part)).clip(min=0)
        return squares.min(1), squares.argmin(1), np.zeros(len(part), int)

    def fitted(b: int, _: int) -> np.ndarray:
        return design(basis.fine[b], beside)

    white = np.full(len(curves), KINDS.index(WHITE))
    return best_fits(curves, floor, [white], 3, fit, fitted)


def transition_fits(
    curves: np.ndarray,
    basis: Bases,
    floor: np.ndarray,
    kind: np.ndarray,
    others: np.ndarray | None = None,
    barred: np.ndarray | None = None,
) -> Fits:
    """Fit curves by the best background and transition, beside the others; the search for the noise starts at a kind.

    It starts at white noise, too, since a transition left out looks like correlation. Those transitions of the grid
    that are barred, [transition], are passed over; some are not.
    """
    beside = _none(basis) if others is None else others

    def fit(part: np.ndarray, kind: int) -> Squares:
        noise, columns = KINDS[kind], smooth_columns(basis.steps, basis.every, kind, fine=False).beside(beside)
        within, best = _within(basis, kind, columns), []
        for curve in part:
            values = noise.whitened(curve[None])
            along = noise.transposed(values) @ basis.transitions.T
            squares = _remaining(values, columns, along, within)[0]
            if barred is not None:
                squares[:, barred] = np.inf
            place = int(squares.argmin())
            best.append((squares.flat[place], *divmod(place, squares.shape[1])))
        squares, background, shape = (np.array(column) for column in zip(*best, strict=True))
        return squares, background, shape

    def fitted(b: int, s: int) -> np.ndarray:
        return np.concatenate([design(basis.coarse[b], beside), basis.transitions[s][None]])

    white = np.full(len(curves), KINDS.index(WHITE))
    return best_fits(curves, floor, [kind, white], 2, fit, fitted)


def coefficients(curve: np.ndarray, columns: np.ndarray, noise: Noise) -> np.ndarray:
    """Return the generalised least squares of a curve on columns [column, step]."""
    solution: np.ndarray = np.linalg.lstsq(noise.whitened(columns).T, noise.whitened(curve), rcond=None)[0]
    return solution


def _none(basis: Bases) -> np.ndarray:
    return np.empty((0, len(basis.u)))


def best_fits(
    curves: np.ndarray,
    floor: np.ndarray,
    starts: Sequence[np.ndarray],
    rounds: int,
    fit: Callable[[np.ndarray, int], Squares],
    columns: Callable[[int, int], np.ndarray],
) -> Fits:
    """Fit, estimate the noise from the residuals, and fit again; return the most likely of all rounds and starts."""
    m, every = len(curves), np.arange(len(curves))
    best = Fits(np.full(m, -np.inf), np.zeros(m, int), np.zeros(m, int), np.zeros(m, int))
    # A curve is fitted once with each kind of noise, and what its residuals then look like is remembered.
    following = np.full((len(KINDS), m), -1)
    for start in starts:
        kind = start
        for _ in range(rounds):
            new = following[kind, every] < 0
            for k in np.unique(kind[new]):
                (rows,) = np.nonzero(new & (kind == k))
                squares, background, shape = fit(curves[rows], int(k))
                likelihood = log_likelihood(squares + floor[rows], curves.shape[1], KINDS[k].correlation)
                likelihood -= KINDS[k].surprise
                residuals = curves[rows].copy()
                for i, row in enumerate(rows):
                    chosen = columns(int(background[i]), int(shape[i]))
                    residuals[i] -= coefficients(curves[row], chosen, KINDS[k]) @ chosen
                    if likelihood[i] > best.likelihood[row]:
                        for column, value in zip(best, (likelihood[i], k, background[i], shape[i]), strict=True):
                            column[row] = value
                following[k, rows] = likelihoods(residuals, floor[rows]).argmax(0)
            kind = following[kind, every]
    return best


def forget() -> None:
    """Let go of what was remembered of searches, where it is much."""
    functions = _bases, smooth_columns, _sizes, _in_backgrounds
    rooms = [function.cache for function in functions]
    if sum(room.currsize for room in rooms if isinstance(room, LRUCache)) > KEPT:
        for function in functions:
            function.cache_clear()
