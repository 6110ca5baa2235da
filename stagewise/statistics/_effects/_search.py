"""The effects of curves: from a generous number of changes down to those that each bring the evidence that is asked."""

import numpy as np
from scipy.special import logsumexp

from stagewise.statistics._effects._fits import Fits, Problem, joined

HELD = 0.01
"""Posterior of an atom in some effect from which a screening keeps it."""

PART = 16
"""Fits for which all settings, or all atoms, are held at once."""


def screened(problem: Problem, fits: Fits) -> Fits:
    """Return fits over those atoms of all that explain most of what the other effects leave."""
    if not len(fits):
        return fits
    return joined([_screened(problem, fits.take(slice(i, i + PART))) for i in range(0, len(fits), PART)])


def _screened(problem: Problem, fits: Fits) -> Fits:
    s, of, atoms = problem.settings, problem.covariances, problem.atoms
    number, effects = fits.shape.shape[:2]
    few, rows = fits.changes, np.arange(number)[:, None]
    whitening, norms = of.whitening[fits.setting], of.norms(atoms.columns, fits.setting)
    parts = np.matmul(fits.shape * fits.size, atoms.columns.T[fits.atoms])
    curves = problem.curves.T[fits.curve][:, None]
    left = np.matmul(curves - parts.sum(1, keepdims=True) + parts, whitening.transpose(0, 2, 1))
    own = np.square(left - np.matmul(parts, whitening.transpose(0, 2, 1)))[:, 0].sum(-1) / of.freedom
    noise = (np.maximum(own, s.resolution**2) if of.scaled else np.ones(number))[:, None, None]
    within = np.matmul(left, whitening)
    along = (within.reshape(-1, within.shape[-1]) @ atoms.columns).reshape(number, effects, -1)
    prior = np.where(np.arange(effects) < few, fits.variance[:, None], problem.reach[fits.curve, None])[..., None]
    shrinkage = prior / (norms[:, None] * prior + noise)
    log = along**2
    log *= shrinkage / noise
    log += np.log(shrinkage * (noise / prior))
    log *= 0.5
    log[:, few:] += atoms.other
    log[:, :few] += atoms.within
    top = log.max(2, keepdims=True)
    log -= top + np.log(np.exp(log - top).sum(2, keepdims=True))
    best = log.max(1)
    # What the effects are now stays, and so does none.
    held = np.where(fits.shape.max(1) > HELD, fits.atoms, 0)
    np.put_along_axis(best, held, np.inf, axis=1)
    best[:, 0] = np.inf
    chosen = np.argpartition(-best, fits.atoms.shape[1] - 1, axis=1)[:, : fits.atoms.shape[1]]
    shape, size = (_moved(values, fits.atoms, chosen, len(atoms.kind)) for values in (fits.shape, fits.size))
    return fits.take(rows[:, 0], atoms=chosen, shape=shape, size=size)


def _moved(values: np.ndarray, before: np.ndarray, after: np.ndarray, number: int) -> np.ndarray:
    """Return values [fit, effect, atom] of some atoms at others, 0 where they had none."""
    dense = np.zeros((*values.shape[:2], number))
    rows = np.arange(len(values))[:, None]
    np.add.at(dense.transpose(0, 2, 1), (rows, before), values.transpose(0, 2, 1))
    return np.asarray(dense.transpose(0, 2, 1)[rows, after].transpose(0, 2, 1))


def suited(problem: Problem, fits: Fits, top: int) -> Fits:
    """Return fits under the settings that suit their effects best, [fit times top]."""
    parts = []
    for i in range(0, len(fits), PART):
        part = fits.take(slice(i, i + PART))
        best = np.argsort(-_evidence(problem, part), axis=0)[:top]
        parts += [part.take(slice(None), setting=setting) for setting in best]
    return joined(parts)


def _evidence(problem: Problem, fits: Fits) -> np.ndarray:
    """Return the log likelihood under all settings of a curve with the mean shapes of its changes: [setting, fit]."""
    s, of = problem.settings, problem.covariances
    columns, few = problem.atoms.columns.T[fits.atoms], fits.changes
    changes = np.matmul(fits.shape[:, :few], columns)
    others = np.matmul((fits.shape * fits.size)[:, few:].sum(1, keepdims=True), columns)
    values = np.concatenate([problem.curves.T[fits.curve][:, None], changes, others], axis=1)
    number, width, steps = values.shape
    white = of.whitening.reshape(-1, steps) @ values.reshape(-1, steps).T
    white = white.reshape(len(of.settings), steps, number, width).transpose(0, 2, 3, 1)
    products = np.matmul(white, white.transpose(0, 1, 3, 2))
    own, along, within = products[..., 0, 0], products[..., 0, 1:], products[..., 1:, 1:]
    prior, one = np.full(few + 1, s.size**2), np.eye(few + 1)
    prior[-1] = 1.0
    noise = np.ones(own.shape) if not of.scaled else np.maximum(0.1 * own / of.freedom, s.resolution**2)
    for _ in range(3 if of.scaled else 1):
        inner = within + noise[..., None, None] * one / prior
        solution = np.linalg.solve(inner, along[..., None])[..., 0]
        rest = np.maximum(own - (solution * along).sum(-1), 0)
        if of.scaled:
            noise = np.maximum(rest / of.freedom, s.resolution**2)
    half = 0.5 * np.linalg.slogdet(one + within * prior / noise[..., None, None])[1]
    return np.asarray(-0.5 * (of.freedom * np.log(2 * np.pi * noise) + rest / noise) - half - of.surprise[:, None])


def leading(fits: Fits, number: int) -> np.ndarray:
    """Return the places of each curve's fits of most evidence."""
    order = np.lexsort((-fits.evidence, fits.curve))
    curve = fits.curve[order]
    rank = np.arange(len(order)) - np.searchsorted(curve, curve)
    return np.asarray(order[rank < number])


def evidence_of(fits: Fits) -> float:
    """Return the evidence of one curve's fits, over their settings."""
    best: dict[int, float] = {}
    for setting, value in zip(fits.setting.tolist(), fits.evidence.tolist(), strict=True):
        best[setting] = max(best.get(setting, -np.inf), value)
    return float(logsumexp(list(best.values())))


def levels(curve: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the gaps and sizes of the jumps of the closest curve of so many jumps between levels."""
    y = np.asarray(curve, float)
    first, second = (np.concatenate([[0], np.cumsum(y**power)]) for power in (1, 2))
    count = np.arange(len(y) + 1)[None] - np.arange(len(y) + 1)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = (second[None] - second[:, None]) - (first[None] - first[:, None]) ** 2 / count
    cost[count <= 0] = np.inf
    best, back = cost[0], []
    for _ in range(number):
        whole = best[:, None] + cost
        back.append(whole.argmin(0))
        best = whole.min(0)
    ends = [len(y)]
    for choice in back[::-1]:
        ends.append(int(choice[ends[-1]]))
    cuts = np.array(ends[:0:-1])
    means = [part.mean() for part in np.split(y, cuts)]
    return cuts - 1, np.diff(means)
