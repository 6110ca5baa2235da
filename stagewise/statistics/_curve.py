"""A curve over training as arrays: its steps, its values, and the values in resamples of what it was measured on."""

from typing import NamedTuple

import numpy as np

from stagewise.statistics import _constants as c


class Curve(NamedTuple):
    """Values at ascending steps, both float64; with `resamples` of what they were measured on, also [draw, step]."""

    steps: np.ndarray
    values: np.ndarray
    resamples: np.ndarray | None = None

    def take(self, chosen: np.ndarray | slice | list[int]) -> "Curve":
        """Return the curve at some of its checkpoints."""
        resamples = None if self.resamples is None else self.resamples[:, chosen]
        return Curve(self.steps[chosen], self.values[chosen], resamples)


def thinned(curve: Curve) -> Curve:
    """Return a curve without the checkpoints of stretches that are finer than what lies before them.

    Log-spaced and linear schedules, whose gaps do not shrink, stay as they are, and so does the last checkpoint.

    >>> thinned(Curve(np.array([0, 1, 2, 4, 8, 12, 13, 14, 15, 16, 20]), np.zeros(11))).steps.tolist()
    [0, 1, 2, 4, 8, 12, 14, 16, 20]
    """
    steps, chosen, largest = curve.steps, [0], 0
    for i in range(1, len(steps)):
        gap = steps[i] - steps[chosen[-1]]
        if gap >= c.FINER_GAP * largest or i == len(steps) - 1:
            chosen.append(i)
            largest = max(largest, gap)
    return curve if len(chosen) == len(steps) else curve.take(chosen)
