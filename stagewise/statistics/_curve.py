"""A curve over training as arrays: steps, values, resampled values; and the unit that it is searched in."""

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
    """Return a curve without the checkpoints of stretches that are finer than what lies before them. Log-spaced and
    linear schedules, whose gaps do not shrink, stay as they are, and so does the last checkpoint.
    """
    steps, chosen, largest = curve.steps, [0], 0
    for i in range(1, len(steps)):
        gap = steps[i] - steps[chosen[-1]]
        if gap >= c.FINER_GAP * largest or i == len(steps) - 1:
            chosen.append(i)
            largest = max(largest, gap)
    return curve if len(chosen) == len(steps) else curve.take(chosen)


class Unit(NamedTuple):
    """A level and a power of two: values less the level, over the power, are about 0 and of the size of 1.

    Squares of a curve that lies far from 0 would lose the digits of its changes, and those of 1e154 be infinite.

    >>> unit = Unit.of(np.array([1e9, 1e9, 1e9 + 0.75]))
    >>> unit.of_values(np.array([1e9, 1e9 + 0.75])).tolist(), unit.level(1.5), unit.size(1.5)
    ([0.0, 1.5], 1000000000.75, 0.75)
    """

    exponent: int
    centre: float

    @classmethod
    def of(cls, curve: np.ndarray) -> "Unit":
        """Return the unit of a curve without outliers, [step]."""
        exponent = int(np.frexp(np.ptp(curve / 2))[1])  # halves: a range may be larger than any number
        return cls(exponent, float(np.median(np.ldexp(curve, -exponent))))

    def of_values(self, values: np.ndarray) -> np.ndarray:
        """Return values of the curve, of any shape, in this unit."""
        return np.asarray(np.ldexp(values, -self.exponent) - self.centre)

    def level(self, value: float) -> float:
        """Return a value in this unit as one of the curve."""
        return float(np.ldexp(value + self.centre, self.exponent))

    def size(self, value: float) -> float:
        """Return a difference in this unit as one of the curve."""
        return float(np.ldexp(value, self.exponent))
