"""A scan for one more transition: the likelihood of every transition of a grid over every smooth background."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._noise.residual import KINDS, WHITE, Noise, likelihoods, log_likelihood
from stagewise.statistics._shapes import Shapes, backgrounds, grid

Squares = tuple[float, int, int]
"""The sum of whitened squares that the best fit leaves, its background, its transition."""


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


class Target(NamedTuple):
    """A curve [step] with what is fitted to it; `floor` is the sum of squares that no model explains."""

    curve: np.ndarray
    basis: Bases
    floor: float

    @classmethod
    def of(cls, curve: np.ndarray, basis: Bases) -> "Target":
        """Return a curve with the floor that its range gives it."""
        return cls(curve, basis, float((c.UNEXPLAINED * np.ptp(curve) + 1e-12) ** 2 * len(curve)))


class Fit(NamedTuple):
    """The best fit of a curve: its log likelihood, its noise, the numbers of its background and transition."""

    likelihood: float
    noise: Noise
    background: int
    shape: int


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
        """Return the squares of a whitened curve outside the columns: [background]."""
        return np.asarray((values**2).sum() - ((self.shared @ values) ** 2).sum() - (self.own @ values) ** 2)


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
        rest, along = self.columns.remaining(values)[:, None], self.last.along(self.columns, values)
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
def smooth_columns(steps: tuple[float, ...], every: int, noise: Noise, *, fine: bool) -> Whitened:
    """Return the backgrounds of a run, beside an offset alone, under a kind of noise."""
    basis = bases(steps, every)
    return whiten(basis.fine if fine else basis.coarse, np.empty((0, len(steps))), noise)


@functools.lru_cache(maxsize=4)
def _scan(steps: tuple[float, ...], every: int, noise: Noise) -> Scan:
    """Return the grid beside the coarse backgrounds and an offset."""
    columns = smooth_columns(steps, every, noise, fine=False)
    return Scan(columns, noise.whitened(bases(steps).transitions))


def smooth_fit(target: Target, others: np.ndarray) -> Fit:
    """Fit a curve by the best background, without a further transition but the others [column, step]."""
    curve, basis, _ = target

    def fit(noise: Noise) -> Squares:
        columns = smooth_columns(basis.steps, basis.every, noise, fine=True).beside(others)
        squares = columns.remaining(noise.whitened(curve)).clip(min=0)
        return float(squares.min()), int(squares.argmin()), 0

    return best_fit(target, [WHITE], 3, fit, lambda b, _: design(basis.fine[b], others))


def transition_fit(target: Target, noise: Noise, others: np.ndarray, barred: np.ndarray | None = None) -> Fit:
    """Fit a curve by the best background and transition, beside the others; the search for the noise starts at a kind.

    It starts at white noise, too, since a transition left out looks like correlation. Those transitions of the grid
    that are barred, [transition], are passed over; some are not.
    """
    curve, basis, _ = target

    def fit(noise: Noise) -> Squares:
        scan = _scan(basis.steps, basis.every, noise)
        if len(others):
            scan = Scan(scan.columns.beside(others), scan.last.whitened)
        squares = scan.squares(curve)
        if barred is not None:
            squares[:, barred] = np.inf
        place = int(squares.argmin())
        return float(squares.flat[place]), *divmod(place, squares.shape[1])

    def fitted(b: int, s: int) -> np.ndarray:
        return np.concatenate([design(basis.coarse[b], others), basis.transitions[s][None]])

    return best_fit(target, [noise, WHITE], 2, fit, fitted)


def coefficients(curve: np.ndarray, columns: np.ndarray, noise: Noise) -> np.ndarray:
    """Return the generalised least squares of a curve on columns [column, step]."""
    solution: np.ndarray = np.linalg.lstsq(noise.whitened(columns).T, noise.whitened(curve), rcond=None)[0]
    return solution


def best_fit(
    target: Target,
    starts: Sequence[Noise],
    rounds: int,
    fit: Callable[[Noise], Squares],
    columns: Callable[[int, int], np.ndarray],
) -> Fit:
    """Fit, estimate the noise from the residuals, and fit again; return the most likely of all rounds and starts."""
    curve, _, floor = target
    fits: dict[Noise, Fit] = {}
    following: dict[Noise, Noise] = {}
    for noise in starts:
        for _ in range(rounds):
            if noise not in fits:
                squares, background, shape = fit(noise)
                likelihood = float(log_likelihood(np.asarray(squares + floor), len(curve), noise.correlation))
                fits[noise] = Fit(likelihood, noise, background, shape)
                chosen = columns(background, shape)
                residual = curve - coefficients(curve, chosen, noise) @ chosen
                following[noise] = KINDS[int(likelihoods(residual, floor).argmax())]
            noise = following[noise]
    return max(fits.values(), key=lambda one: one.likelihood)
