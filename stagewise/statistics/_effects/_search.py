"""The effects of curves: from a generous number of changes down to those that each bring the evidence that is asked."""

import functools

import numpy as np
from scipy.special import logsumexp

from stagewise.statistics._effects._atoms import Atoms
from stagewise.statistics._effects._fits import Fits, Problem, by_parts

HELD = 0.01
"""Posterior of an atom in some effect from which a screening keeps it."""


def screened(problem: Problem, fits: Fits) -> Fits:
    """Return fits over those atoms of all that explain most of what the other effects leave."""
    return by_parts(functools.partial(_screened, problem), fits)


def _screened(problem: Problem, fits: Fits) -> Fits:
    of, atoms = problem.covariances, problem.atoms
    norms, few = np.stack([of.lengths(atoms.columns, one) for one in fits.setting.tolist()]), fits.changes
    parts = np.matmul(fits.shape * fits.size, atoms.columns[fits.atoms])
    left = problem.curves[fits.curve][:, None] - parts.sum(1, keepdims=True) + parts
    within, rest = of.inverse(fits.setting, left), left - parts
    noise = problem.noise((rest[:, 0] * of.inverse(fits.setting, rest[:, :1])[:, 0]).sum(-1))
    best = np.full(norms.shape, -np.inf)
    changes, others = slice(atoms.first_change, None), slice(0, atoms.first_change)
    best[:, others] = _closest(within[:, few:], norms, noise, problem.reach[fits.curve], atoms, others)
    if few:
        best[:, changes] = _closest(within[:, :few], norms, noise, fits.variance, atoms, changes)
    # What the effects are now stays, and so does none.
    held = np.where(fits.shape.max(1) > HELD, fits.atoms, 0)
    np.put_along_axis(best, held, np.inf, axis=1)
    best[:, 0] = np.inf
    # In their own order: that of a partition is the processor's, and what is drawn of them goes by it.
    number = fits.atoms.shape[1]
    chosen = np.sort(np.argpartition(-best, number - 1, axis=1)[:, :number], axis=1)
    shape, size = (_moved(values, fits.atoms, chosen, len(atoms.kind)) for values in (fits.shape, fits.size))
    return fits.take(slice(None), atoms=chosen, shape=shape, size=size)


def _closest(
    within: np.ndarray, norms: np.ndarray, noise: np.ndarray, prior: np.ndarray, atoms: Atoms, part: slice
) -> np.ndarray:
    """Return by how much some atoms explain less of what an effect has left than the best one, for the effect of which
    each explains most: [fit, atom].
    """
    prior, noise = prior[:, None], noise[:, None]
    shrinkage = prior / (norms[:, part] * prior + noise)
    base = 0.5 * np.log(shrinkage * (noise / prior)) + atoms.prior[part]
    # One product of matrices is four times as fast as one for each fit.
    log = (within.reshape(-1, within.shape[2]) @ atoms.columns[part].T).reshape(*within.shape[:2], -1)
    log *= log
    log *= (0.5 * shrinkage / noise)[:, None]
    log += base[:, None]
    log -= log.max(2, keepdims=True)
    return np.asarray(log.max(1))


def _moved(values: np.ndarray, before: np.ndarray, after: np.ndarray, number: int) -> np.ndarray:
    """Return values [fit, effect, atom] of some atoms at others, 0 where they had none."""
    dense = np.zeros((*values.shape[:2], number))
    rows = np.arange(len(values))[:, None]
    np.add.at(dense.transpose(0, 2, 1), (rows, before), values.transpose(0, 2, 1))
    return np.asarray(dense.transpose(0, 2, 1)[rows, after].transpose(0, 2, 1))


def suited(problem: Problem, fits: Fits, top: int) -> Fits:
    """Return fits under the settings that suit their effects best, so many of each in turn."""

    def under_best(part: Fits) -> Fits:
        best = np.argsort(-_evidence(problem, part), axis=0, kind="stable")[:top]
        return part.take(np.repeat(np.arange(len(part)), len(best)), setting=best.T.ravel())

    return by_parts(under_best, fits)


def _evidence(problem: Problem, fits: Fits) -> np.ndarray:
    """Return the log likelihood under all settings of a curve with the mean shapes of its changes: [setting, fit]."""
    s, of = problem.settings, problem.covariances
    columns, few = problem.atoms.columns[fits.atoms], fits.changes
    changes = np.matmul(fits.shape[:, :few], columns)
    others = np.matmul((fits.shape * fits.size)[:, few:].sum(1, keepdims=True), columns)
    products = of.all_products(np.concatenate([problem.curves[fits.curve][:, None], changes, others], axis=1))
    evidence, _ = marginal(problem, products, np.array([s.size**2] * few + [1.0]))
    return np.asarray(evidence - of.surprise[:, None])


def marginal(problem: Problem, products: np.ndarray, prior: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the log likelihood of curves and the variance of their noise, sizes of columns integrated out.

    Args:
        products: those of the curve and its columns with one another, [..., 1 + column, 1 + column].
        prior: variances of the sizes, [column].
    """
    of, one = problem.covariances, np.eye(len(prior))
    own, along, within = products[..., 0, 0], products[..., 0, 1:], products[..., 1:, 1:]
    noise = problem.noise(0.1 * own)
    for _ in range(3 if of.scaled else 1):
        inner = within + noise[..., None, None] * one / prior
        solution = np.linalg.solve(inner, along[..., None])[..., 0]
        rest = np.maximum(own - (solution * along).sum(-1), 0)
        noise = problem.noise(rest)
    half = 0.5 * np.linalg.slogdet(one + within * prior / noise[..., None, None])[1]
    return np.asarray(-0.5 * (of.freedom * np.log(2 * np.pi * noise) + rest / noise) - half), noise


def leading(fits: Fits, number: int) -> np.ndarray:
    """Return the places of each curve's fits of most evidence."""
    order = np.lexsort((-fits.evidence, fits.curve))
    curve = fits.curve[order]
    rank = np.arange(len(order)) - np.searchsorted(curve, curve)
    return np.asarray(order[rank < number])


def evidence_of(fits: Fits, group: np.ndarray, number: int) -> np.ndarray:
    """Return the evidence of each of so many groups of fits, over its settings: [group]; none is without any."""
    best = np.full((number, fits.setting.max(initial=0) + 1), -np.inf)
    np.maximum.at(best, (group, fits.setting), fits.evidence)
    return np.asarray(logsumexp(best, axis=1))


def levels(curve: np.ndarray, most: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the gaps and sizes of the jumps of the closest curve of one jump between levels, of two, and so on."""
    y = np.asarray(curve, float)
    first, second = (np.concatenate([[0], np.cumsum(y**power)]) for power in (1, 2))
    count = np.arange(len(y) + 1)[None] - np.arange(len(y) + 1)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = (second[None] - second[:, None]) - (first[None] - first[:, None]) ** 2 / count
    cost[count <= 0] = np.inf
    best, back, result = cost[0], list[np.ndarray](), list[tuple[np.ndarray, np.ndarray]]()
    for _ in range(most):
        whole = best[:, None] + cost
        back.append(whole.argmin(0))
        best = whole.min(0)
        ends = [len(y)]
        for choice in back[::-1]:
            ends.append(int(choice[ends[-1]]))
        cuts = np.array(ends[:0:-1])
        result.append((cuts - 1, np.diff([part.mean() for part in np.split(y, cuts)])))
    return result
