"""Draws of a curve without its noise, from its model: by them a minimum, a rise and a pause are told."""

from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from stagewise.statistics._effects._atoms import Kind, sigmoid
from stagewise.statistics._effects._fits import OTHERS, Fits, Problem
from stagewise.statistics._effects._search import marginal
from stagewise.statistics._effects._selection import Selection

COMBINATIONS = 40
"""Combinations of a setting and a shape for each effect that are drawn; draws of sizes and noise share them."""

ROUNDS = 4
"""Rounds in which sigmoids are moved to their likeliest place and width within their cells, by half as much each."""


class Signals(NamedTuple):
    """What a curve may be without its noise and excursions: draws of it, [draw, step], at steps: its `checkpoints`, or
    the middles of stretches of many.
    """

    steps: np.ndarray
    draws: np.ndarray
    checkpoints: np.ndarray

    def since(self, place: int) -> "Signals":
        """Return them from one of the steps on."""
        later = self.checkpoints[self.checkpoints >= self.steps[place]]
        return Signals(self.steps[place:], self.draws[:, place:], later)


class _Combinations(NamedTuple):
    """A setting and a shape for each effect: `columns` [combination, effect, step], with prior variances [effect]."""

    setting: np.ndarray
    atoms: np.ndarray
    columns: np.ndarray
    prior: np.ndarray


def signals_of(problem: Problem, selection: Selection, number: int, seed: int) -> np.ndarray:
    """Return draws of a curve without noise and excursions, in its unit, from the posterior: [draw, step]."""
    generator, fits = np.random.default_rng(seed), selection.fits
    fit = np.arange(COMBINATIONS) % len(fits)
    combinations, curve = _drawn(problem, fits.take(fit), generator), problem.curves[fits.curve[0]]
    moved, gains = _moved(problem, combinations, curve)
    # A setting is as likely as it is with its shapes where they fit best.
    weight = softmax(fits.evidence[fit] - np.log(np.bincount(fit)[fit]) + gains)
    shares, roots = generator.multinomial(number, weight).tolist(), _roots(problem, moved.setting)
    draws = [_sizes_and_noise(problem, curve, moved, k, n, roots, generator) for k, n in enumerate(shares) if n]
    return np.asarray(generator.permutation(np.concatenate(draws)))


def _drawn(problem: Problem, fits: Fits, generator: np.random.Generator) -> _Combinations:
    """Return a combination of each fit's settings and shapes."""
    s, below = problem.settings, fits.shape.cumsum(2)
    place = (generator.random(below.shape[:2])[..., None] * below[..., -1:] > below).sum(2)
    atoms = np.take_along_axis(fits.atoms, place, 1)
    prior = np.array([s.size**2] * fits.changes + [problem.reach[fits.curve[0]]] * OTHERS)
    return _Combinations(fits.setting, atoms, problem.atoms.columns[atoms], prior)


def _moved(problem: Problem, of: _Combinations, curve: np.ndarray) -> tuple[_Combinations, np.ndarray]:
    """Return combinations with each sigmoid at the likeliest of the places and widths that it stands for, and by how
    much that raises the evidence of each.
    """
    atoms, columns, s = problem.atoms, of.columns.copy(), problem.settings
    times, cell = atoms.times[of.atoms], atoms.cell[of.atoms, 1]
    place, width = times[..., 1], (times[..., 2] - times[..., 0]) / np.log(81)
    ways = np.stack(np.meshgrid([0.0, -0.5, 0.5], [0.0, -0.5, 0.5]), -1).reshape(-1, 2)
    rows, before = np.arange(len(columns)), _evidence(problem, of, curve, columns[:, None])[:, 0]
    for part in 0.5 ** np.arange(ROUNDS):
        for e in np.flatnonzero((atoms.family[of.atoms] > 1).any(0)):
            places = place[:, [e]] + part * ways[:, 0] * cell[:, [e]]
            widths = width[:, [e]] * (s.widths[0] / s.widths[1]) ** (part * ways[:, 1])
            is_one = atoms.family[of.atoms[:, e]] > 1
            shapes = sigmoid(problem.u, *(np.where(is_one[:, None], each, 1.0)[..., None] for each in (places, widths)))
            shapes = np.where(is_one[:, None, None], shapes / np.ptp(shapes, axis=2, keepdims=True), columns[:, [e]])
            tried = np.repeat(columns[:, None], len(ways), axis=1)
            tried[:, :, e] = shapes
            best = _evidence(problem, of, curve, tried).argmax(1)
            columns[:, e], place[:, e], width[:, e] = shapes[rows, best], places[rows, best], widths[rows, best]
    return of._replace(columns=columns), _evidence(problem, of, curve, columns[:, None])[:, 0] - before


def _evidence(problem: Problem, of: _Combinations, curve: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the log likelihood of a curve with other columns, [combination, way, effect, step]."""
    number, ways = columns.shape[:2]
    rows = np.concatenate([np.broadcast_to(curve, (number, ways, 1, len(curve))), columns], axis=2)
    products = problem.covariances.products(np.repeat(of.setting, ways), rows.reshape(-1, *rows.shape[2:]))
    return marginal(problem, products, of.prior)[0].reshape(number, ways)


def _roots(problem: Problem, setting: np.ndarray) -> dict[int, np.ndarray]:
    """Return by setting the symmetric root, whichever signs eigenvectors have, of what a curve does not tell of its
    noise: [step, step].
    """
    of, roots = problem.covariances, dict[int, np.ndarray]()
    for one in np.unique(setting).tolist():
        own = of.noises[of.of[one]]
        spread, vectors = np.linalg.eigh(own - own @ of.inverse(np.array([one]), own[None])[0])
        roots[one] = (vectors * np.sqrt(spread.clip(min=0))) @ vectors.T
    return roots


def _sizes_and_noise(
    problem: Problem, curve: np.ndarray, of: _Combinations, k: int, number: int, roots: dict[int, np.ndarray],
    generator: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """Return draws of a curve less its excursions and noise, with the sizes and the noise of a combination."""
    covariances, setting = problem.covariances, of.setting[[k]]
    columns = of.columns[k]
    products = covariances.products(setting, np.concatenate([curve[None], columns])[None])
    variance = float(marginal(problem, products, of.prior)[1][0])
    noise = np.sqrt(variance * covariances.freedom / generator.chisquare(covariances.freedom, number))[:, None]
    # Sizes: the posterior of the regression; its precision is that of the products beside the prior.
    precision = products[0, 1:, 1:] + np.diag(variance / of.prior)
    factor = np.linalg.inv(np.linalg.cholesky(precision))
    sizes = factor.T @ factor @ products[0, 0, 1:] + noise * generator.standard_normal((number, len(columns))) @ factor
    left = curve - sizes @ columns
    expected = covariances.noise_in(left, int(setting[0]))
    brief = problem.atoms.kind[of.atoms[k]] == Kind.EXCURSION
    noises = expected + noise * generator.standard_normal((number, len(curve))) @ roots[int(setting[0])]
    return np.asarray(curve - noises - sizes[:, brief] @ columns[brief])
