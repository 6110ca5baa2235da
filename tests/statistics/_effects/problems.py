"""Problems of a few curves, and fits without anything in them."""

import numpy as np

from stagewise.statistics import EffectSettings
from stagewise.statistics._effects._atoms import atoms_of
from stagewise.statistics._effects._covariances import covariances_of
from stagewise.statistics._effects._fits import Fits, Problem, blank

S = EffectSettings()


def problem_of(curves: np.ndarray) -> Problem:
    """Curves in their units, [curve, step], at even steps."""
    steps = tuple(np.arange(0.0, 100.0 * curves.shape[1], 100.0).tolist())
    reach = np.full(len(curves), S.size**2)
    covariances = covariances_of(steps, (), None, None, S)
    number = len(curves)
    u, unit = np.log1p(steps), np.ones(number)
    return Problem(curves, reach, atoms_of(steps, S), covariances, S, u, np.zeros(number), unit)


def fits_of(
    problem: Problem, curve: list[int], evidence: list[float], setting: list[int] | None = None, changes: int = 1
) -> Fits:
    """Fits of so many changes with a given evidence."""
    places = np.array(setting if setting else [0] * len(curve))
    return blank(problem, np.array(curve), places, changes).take(slice(None), evidence=np.array(evidence))
