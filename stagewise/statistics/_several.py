"""Several transitions of the grid at once, each where it is likeliest beside the others."""

from typing import NamedTuple

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._noise.residual import KINDS
from stagewise.statistics._refinement import Context
from stagewise.statistics._scan import Bases, Fits, coefficients, design, transition_fits
from stagewise.statistics._segments import jumps


class Several(NamedTuple):
    """Transitions of the grid at once, by their numbers in it, and the fit that adds the last one to the others."""

    places: list[int]
    fit: Fits

    @property
    def likelihood(self) -> float:
        """The log likelihood of all."""
        return float(self.fit.likelihood[0])


def moved(
    context: Context, places: list[int], number: int, kind: np.ndarray, barred: np.ndarray | None = None
) -> Several:
    """Move one of so many transitions after another to where it is likeliest beside the others, until all stay."""
    basis, tried, settled = context.basis, list[Several](), 0
    for _ in range(max(c.MOVES, number)):
        others = places[-number + 1 :]
        beside = np.concatenate([context.others, basis.transitions[others]])
        fits = transition_fits(context.curve[None], basis, np.array([context.floor]), kind, beside, barred)
        before, places = places, [*others, int(fits.shape[0])]
        tried.append(Several(places, fits))
        settled = settled + 1 if sorted(places) == sorted(before) else 0
        if settled == number - 1:
            break
    return max(tried, key=lambda several: several.likelihood)


def stairs(context: Context, number: int, kind: np.ndarray) -> Several | None:
    """Return so many steps of a staircase, found from the jumps of the closest curve of levels; None if they go up and
    down.
    """
    basis = context.basis
    sharpest, ends = np.flatnonzero(~_lasts(basis, np.inf)), jumps(context.curve, number)
    middles = (basis.u[ends] + basis.u[ends + 1]) / 2
    places = sharpest[np.abs(basis.shapes.middle[sharpest] - middles[:, None]).argmin(1)]
    several = moved(context, places.tolist(), number, kind, _lasts(basis, len(basis.u) / (2 * number)))
    columns = design(basis.coarse[several.fit.background[0]], basis.transitions[several.places])
    sizes = coefficients(context.curve, columns, KINDS[int(several.fit.kind[0])])[2:]
    return several if (sizes > 0).all() or (sizes < 0).all() else None


def _lasts(basis: Bases, checkpoints: float) -> np.ndarray:
    """Return which transitions of the grid last for more checkpoints, or approach their level as a power of the step:
    [transition].
    """
    early, _, late = np.interp(basis.shapes.times().T, basis.u, np.arange(len(basis.u)))
    return np.asarray((basis.shapes.tail != 0) | (late - early > checkpoints))
