"""What a curve's model says: its changes, each with its size, its times and its evidence."""

from typing import NamedTuple

import numpy as np

from evidence.effects._atoms import PARTS, Kind
from evidence.effects._covariances import Setting
from evidence.effects._fits import Fits, Problem
from evidence.effects._selection import Selection


class Effect(NamedTuple):
    """A change of level, by `size` over the run.

    `times` are log(1 + step) of t10, t50 and t90, each with its 95 % interval: [part, (median, lo, hi)]. `bayes` is the
    log Bayes factor of the change against all that could explain it without. Where it lies `within_gap`, it is abrupt
    at this spacing: its interval is the gap between checkpoints, in which nothing is known.
    """

    size: float
    times: np.ndarray
    bayes: float
    within_gap: bool


class CurveModel(NamedTuple):
    """The changes of a curve in their order, and what they rest on.

    `evidence` is the log likelihood by number of changes, all else integrated over; `noise` the deviation of the noise
    beside given errors, under its most likely `setting`; `visible` the size from which a change in the middle of the
    run would have been told, None where the quantity cannot change by as much.
    """

    effects: tuple[Effect, ...]
    evidence: dict[int, float]
    noise: float
    setting: Setting
    visible: float | None


def told(problem: Problem, selection: Selection, unit: float, span: float, u: np.ndarray) -> CurveModel:
    """Return what a selection says of a curve that was divided by a unit and has values within a span."""
    fits, best = selection.fits, int(selection.fits.evidence.argmax())
    weight = np.exp(fits.evidence - fits.evidence.max())
    weight /= weight.sum()
    effects = [
        _effect(problem, fits, weight, e, float(bayes), unit, span, u) for e, bayes in enumerate(selection.bayes)
    ]
    effects.sort(key=lambda each: float(each.times[1, 0]))
    setting, deviation = problem.covariances.settings[fits.setting[best]], float(np.sqrt(fits.noise[best]))
    noise = deviation * unit if problem.covariances.scaled else float(np.sqrt(setting.noise))
    visible = _visible(problem, fits, best) * unit
    return CurveModel(tuple(effects), selection.evidence, noise, setting, visible if visible <= span else None)


def _effect(
    problem: Problem, fits: Fits, weight: np.ndarray, e: int, bayes: float, unit: float, span: float, u: np.ndarray
) -> Effect:
    """Return an effect over settings, each weighted by its evidence."""
    atoms, posterior = problem.atoms, np.zeros(len(problem.atoms.kind))
    np.add.at(posterior, fits.atoms, weight[:, None] * fits.shape[:, e])
    posterior = np.where(atoms.kind == Kind.CHANGE, posterior, 0)
    posterior /= posterior.sum()
    size = float(weight @ (fits.shape[:, e] * fits.size[:, e]).sum(1)) * unit
    parts = range(len(PARTS))
    times = np.array([_quantiles(atoms.times[:, part], atoms.cell[:, part], posterior) for part in parts])
    jump = bool(posterior[atoms.jumps].sum() > 0.5)
    if jump:
        times[:, 1] = u[np.searchsorted(u, times[:, 1], side="right") - 1]
        times[:, 2] = u[np.searchsorted(u, times[:, 2], side="left").clip(max=len(u) - 1)]
    return Effect(float(np.clip(size, -span, span)), times, bayes, jump)


def _quantiles(middle: np.ndarray, cell: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the median and the 95 % interval of a mixture of uniform distributions over cells."""
    some = weight > 1e-5
    middle, cell, weight = middle[some], np.maximum(cell[some], 1e-9), weight[some] / weight[some].sum()
    edges = np.unique(np.concatenate([middle - cell / 2, middle + cell / 2]))
    below = (((edges[:, None] - middle + cell / 2) / cell).clip(0, 1) * weight).sum(1)
    return np.asarray(np.interp([0.5, 0.025, 0.975], below, edges))


def _visible(problem: Problem, fits: Fits, best: int) -> float:
    """Return the size, in units, of a jump whose log Bayes factor reaches the threshold at half of the places."""
    s, atoms, setting = problem.settings, problem.atoms, fits.setting[[best]]
    norms, noise = problem.covariances.norms(atoms.columns, setting)[0, atoms.jumps], float(fits.noise[best])
    surprise = np.log(atoms.of_family.shape[1]) - atoms.within[atoms.jumps]
    needed = s.threshold + surprise + 0.5 * np.log1p(norms * s.size**2 / noise)
    squares = 2 * noise / norms * needed * (1 + noise / (norms * s.size**2))
    return float(np.sqrt(np.median(squares)))
