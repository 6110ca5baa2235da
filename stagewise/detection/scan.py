"""A scan for one more transition: the likelihood of every transition of a grid over every smooth background."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from stagewise.detection.curve_noise import KINDS, WHITE, Noise, likelihoods, log_likelihood
from stagewise.detection.shapes import Shapes, backgrounds, grid

COARSE, FINE = 2, 6
"""Time scales of backgrounds to a decade of steps, in the search and in the fit without a further transition."""

FLOOR = 3e-3
"""Deviation of what no smooth model explains, as a part of the range of a curve."""

PART = 512
"""Transitions that are whitened at a time."""

COLLINEAR = 1e-3
"""Least part of a transition that its background does not explain already."""

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
    """Orthonormal columns of each background with its offset and others, whitened: [background, column, step]."""

    noise: Noise
    columns: np.ndarray

    def inside(self, curves: np.ndarray) -> np.ndarray:
        """Return what the columns explain of whitened curves: [background, column, curve]."""
        return np.asarray(self.columns @ curves.T)

    def beside(self, others: np.ndarray) -> "Whitened":
        """Return them with further columns [column, step], the same for each background."""
        if not len(others):
            return self
        rows = self.columns
        for other in self.noise.whitened(others):
            row = np.broadcast_to(other, (len(rows), 1, len(other)))
            for _ in range(2):
                row = row - (row @ rows.swapaxes(1, 2)) @ rows
            length = np.sqrt((row**2).sum(-1, keepdims=True))
            rows = np.concatenate([rows, row / np.where(length > 0, length, 1.0)], axis=1)
        return Whitened(self.noise, rows)


@functools.lru_cache(maxsize=16)
def bases(steps: tuple[float, ...], every: int = 1) -> Bases:
    """Return what is fitted to curves with these steps."""
    times, shapes = np.asarray(steps), grid(steps)
    u = np.log1p(times)
    return Bases(steps, every, u, backgrounds(times, COARSE)[::every], backgrounds(times, FINE), shapes, shapes.at(u))


def floors(curves: np.ndarray) -> np.ndarray:
    """Return the sum of squares that is added to every residual: [curve]."""
    return np.asarray((FLOOR * np.ptp(curves, axis=-1) + 1e-12) ** 2 * curves.shape[-1])


def design(background: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return each background with an offset and the other columns: [background, column, step]."""
    ones = np.ones((len(background), 1, background.shape[-1]))
    repeated = np.broadcast_to(others, (len(background), *others.shape))
    return np.concatenate([ones, background[:, None], repeated], axis=1)


def whiten(columns: np.ndarray, noise: Noise) -> Whitened:
    """Return columns [background, column, step] whitened and made orthonormal (Gram and Schmidt, twice)."""
    rows = np.array(noise.whitened(columns))
    for i in range(rows.shape[1]):
        for _ in range(2):
            for j in range(i):
                rows[:, i] -= (rows[:, i] * rows[:, j]).sum(-1, keepdims=True) * rows[:, j]
        length = np.sqrt((rows[:, i] ** 2).sum(-1, keepdims=True))
        rows[:, i] /= np.where(length > 0, length, 1.0)
    return Whitened(noise, rows)


def scanned(curves: np.ndarray, whitened: Whitened, transitions: np.ndarray) -> np.ndarray:
    """Return the squares that remain with each background and each transition: [curve, background, transition]."""
    candidates, values = whitened.noise.whitened(transitions), whitened.noise.whitened(curves)
    within = whitened.inside(candidates)
    return _remaining(values, whitened, _own((candidates**2).sum(-1), within), values @ candidates.T, within)


def _own(size: np.ndarray, within: np.ndarray) -> np.ndarray:
    """Return the squares of transitions outside the columns, infinite where these explain them: [background, ...]."""
    own = size - np.einsum("bct, bct -> bt", within, within)
    return np.where(own > COLLINEAR * size, own, np.inf)


def _remaining(
    values: np.ndarray, whitened: Whitened, own: np.ndarray, along: np.ndarray, within: np.ndarray
) -> np.ndarray:
    """Return what `scanned` does, from the transitions' own squares, and their products with curves and columns."""
    inside = whitened.inside(values)
    rest = (values**2).sum(-1) - (inside**2).sum(1)
    gain = along[None] - inside.swapaxes(1, 2) @ within
    # Rounding can leave less than nothing of a curve that is fitted exactly.
    return np.asarray((rest[..., None] - gain**2 / own[:, None]).clip(min=0).swapaxes(0, 1))


@functools.lru_cache(maxsize=128)
def _smooth(steps: tuple[float, ...], every: int, kind: int, *, fine: bool) -> Whitened:
    basis = bases(steps, every)
    return whiten(design(basis.fine if fine else basis.coarse, np.empty((0, len(steps)))), KINDS[kind])


@functools.lru_cache(maxsize=16)
def _candidates(steps: tuple[float, ...], every: int, kind: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of squares of the whitened transitions of the grid, and their part in the backgrounds."""
    # Whitened transitions exist a part at a time: all of them, for each kind of noise, would take the most memory.
    noise, transitions = KINDS[kind], bases(steps, every).transitions
    parts = np.array_split(transitions, len(transitions) // PART + 1)
    size = np.concatenate([(noise.whitened(part) ** 2).sum(-1) for part in parts])
    return size, noise.transposed(_smooth(steps, every, kind, fine=False).columns) @ transitions.T


def smooth_fits(curves: np.ndarray, basis: Bases, floor: np.ndarray, others: np.ndarray | None = None) -> Fits:
    """Fit curves [curve, step] by the best background, without a further transition but the others."""
    beside = _none(basis) if others is None else others
    columns = design(basis.fine, beside)

    def fit(part: np.ndarray, kind: int) -> Squares:
        whitened = _smooth(basis.steps, basis.every, kind, fine=True).beside(beside)
        values = KINDS[kind].whitened(part)
        squares = ((values**2).sum(-1) - (whitened.inside(values) ** 2).sum(1)).clip(min=0)
        return squares.min(0), squares.argmin(0), np.zeros(len(part), int)

    white = np.full(len(curves), KINDS.index(WHITE))
    return _best(curves, floor, [white], 3, fit, lambda b, _: columns[b])


def transition_fits(
    curves: np.ndarray, basis: Bases, floor: np.ndarray, kind: np.ndarray, others: np.ndarray | None = None
) -> Fits:
    """Fit curves by the best background and transition, beside the others; the search for the noise starts at a kind.

    It starts at white noise, too, since a transition left out looks like correlation.
    """
    beside = _none(basis) if others is None else others
    columns = design(basis.coarse, beside)

    def fit(part: np.ndarray, kind: int) -> Squares:
        noise, whitened = KINDS[kind], _smooth(basis.steps, basis.every, kind, fine=False).beside(beside)
        size, within = _candidates(basis.steps, basis.every, kind)
        if len(beside):
            # One product of matrices: of a stack of single rows numpy makes as many slow ones.
            others = noise.transposed(whitened.columns[:, 2:])
            inside = others.reshape(-1, others.shape[-1]) @ basis.transitions.T
            within = np.concatenate([within, inside.reshape(*others.shape[:2], -1)], axis=1)
        own, best = _own(size, within), []
        for curve in part:
            values = noise.whitened(curve[None])
            along = noise.transposed(values) @ basis.transitions.T
            squares = _remaining(values, whitened, own, along, within)[0]
            place = int(squares.argmin())
            best.append((squares.flat[place], *divmod(place, squares.shape[1])))
        squares, background, shape = (np.array(column) for column in zip(*best, strict=True))
        return squares, background, shape

    def fitted(b: int, s: int) -> np.ndarray:
        return np.concatenate([columns[b], basis.transitions[s][None]])

    white = np.full(len(curves), KINDS.index(WHITE))
    return _best(curves, floor, [kind, white], 2, fit, fitted)


def coefficients(curve: np.ndarray, columns: np.ndarray, noise: Noise) -> np.ndarray:
    """Return the generalised least squares of a curve on columns [column, step]."""
    solution: np.ndarray = np.linalg.lstsq(noise.whitened(columns).T, noise.whitened(curve), rcond=None)[0]
    return solution


def _none(basis: Bases) -> np.ndarray:
    return np.empty((0, len(basis.u)))


def _best(
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
