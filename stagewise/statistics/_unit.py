"""The unit that a curve is searched in: its middle level is 0 and its range about 1, whatever it was logged in."""

from typing import NamedTuple

import numpy as np


class Unit(NamedTuple):
    """A level and a power of two: values less the level, over the power, are of the size of 1.

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
