"""A scan for one more transition: the likelihood of every transition of a grid over every smooth background."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._noise.residual import KINDS, WHITE, Noise, likelihoods, log_likelihood
from stagewise.statistics._shapes import Shapes, backgrounds, grid

Squares = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Of each curve: the sum of whitened squares that the best fit leaves, its background, its transition."""


class Bases(NamedTuple):
    """Backgrounds, coarse and fine, and transitions at the checkpoints of a run; u is log(1 + step).

    One in `every` of the coarse backgrounds is there.
    """

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


class Scan:
    """Transitions beside columns, each with the growth that begins with it, all whitened, for curve after curve."""

    def __init__(self, columns: Whitened, transitions: np.ndarray, growths: np.ndarray | None = None) -> None:
        """Take columns, whitened transitions [transition, step], and what begins with each, [transition, step]."""
        self.columns, self.last = columns, _Rows.of(columns, transitions)
        self.size, self.growths = self.last.product(self.last), None
        if growths is not None:
            self.growths = _Rows.of(columns, columns.noise.whitened(growths))
            self.growth = _explained(self.growths.product(self.growths), self.growths)
            self.part = self.growths.product(self.last) / self.growth
            self.size = self.size - self.part**2 * np.where(np.isfinite(self.growth), self.growth, 0.0)
        self.size = _explained(self.size, self.last)

    def squares(self, curve: np.ndarray) -> np.ndarray:
        """Return what remains of a curve [step] with each background and transition: [background, transition]."""
        values = self.columns.noise.whitened(curve)
        rest, along = self.columns.remaining(values[None])[0][:, None], self.last.along(self.columns, values)
        if self.growths is not None:
            first = self.growths.along(self.columns, values)
            rest, along = rest - first**2 / self.growth, along - self.part * first
        # Rounding can leave less than nothing of a curve that is fitted exactly.
        return np.asarray((rest - along**2 / self.size).clip(min=0))


class _Rows(NamedTuple):
    """Whitened rows with their parts in the shared columns, [column, row], and in each own one, [background, row]."""

    whitened: np.ndarray
    shared: np.ndarray
    own: np.ndarray

    @classmethod
    def of(cls, columns: Whitened, whitened: np.ndarray) -> "_Rows":
        return cls(whitened, columns.shared @ whitened.T, columns.own @ whitened.T)

    def product(self, other: "_Rows") -> np.ndarray:
        """Return the products of rows outside the columns, each with its counterpart: [background, row]."""
        shared = (self.whitened * other.whitened).sum(-1) - (self.shared * other.shared).sum(0)
        return np.asarray(shared - self.own * other.own)

    def along(self, columns: Whitened, values: np.ndarray) -> np.ndarray:
        """Return the products with a whitened curve [step] outside the columns: [background, row]."""
        shared = self.whitened @ values - (columns.shared @ values) @ self.shared
        return np.asarray(shared - (columns.own @ values)[:, None] * self.own)


def _explained(size: np.ndarray, rows: _Rows) -> np.ndarray:
    """Return squares outside the columns, infinite where these explain a row: it explains no more."""
    return np.where(size > c.COLLINEAR * (rows.whitened**2).sum(-1), size, np.inf)


def bases(steps: tuple[float, ...], every: int = 1) -> Bases:
    """Return what is fitted to curves with these steps."""
    whole = _bases(steps)
    return whole if every == 1 else whole._replace(every=every, coarse=whole.coarse[::every])


@functools.lru_cache(maxsize=4)
def _bases(steps: tuple[float, ...]) -> Bases:
    times, shapes = np.asarray(steps), grid(steps)
    u = np.log1p(times)
    coarse, fine = (backgrounds(times, scales) for scales in (c.COARSE_SCALES, c.FINE_SCALES))
    return Bases(steps, 1, u, coarse, fine, shapes, shapes.at(u))


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
    """Return what rows have outside orthonormal columns, to length one, or 0 (Gram and Schmidt, twice)."""
    rest = rows
    for _ in range(2):
        rest = rest - (rest @ columns.T) @ columns
    length, size = (np.sqrt((part**2).sum(-1, keepdims=True)) for part in (rest, rows))
    return np.asarray(rest / np.where(length > c.EXPLAINED * size, length, np.inf))


@functools.lru_cache(maxsize=16)
def smooth_columns(steps: tuple[float, ...], every: int, kind: int, *, fine: bool) -> Whitened:
    """Return the backgrounds of a run, beside an offset alone, under a kind of noise."""
    basis = bases(steps, every)
    return whiten(basis.fine if fine else basis.coarse, _none(basis), KINDS[kind])


@functools.lru_cache(maxsize=4)
def _scan(steps: tuple[float, ...], every: int, kind: int) -> Scan:
    """Return the grid beside the coarse backgrounds and an offset."""
    columns = smooth_columns(steps, every, kind, fine=False)
    return Scan(columns, KINDS[kind].whitened(bases(steps).transitions))


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
        scan, best = _scan(basis.steps, basis.every, kind), []
        if len(beside):
            scan = Scan(scan.columns.beside(beside), scan.last.whitened)
        for curve in part:
            squares = scan.squares(curve)
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
