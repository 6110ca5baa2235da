"""A curve over training as arrays, in a unit of its own, and the largest change of its level."""

from typing import NamedTuple

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._differences import noise, running_median


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


class Move(NamedTuple):
    """The largest change of a curve's level, up or down, and its noise."""

    before: float
    after: float
    noise: float


def moved(values: np.ndarray) -> Move:
    """Return the largest change of a curve between checkpoints in their order, of running medians over three."""
    return Move(*_largest(running_median(values)), float(noise(values)))


def _largest(values: np.ndarray) -> tuple[float, float]:
    """Return the levels between which values rise or fall most."""
    rises, falls = values - np.minimum.accumulate(values), np.maximum.accumulate(values) - values
    if rises.max() >= falls.max():
        end = int(rises.argmax())
        return float(values[: end + 1].min()), float(values[end])
    end = int(falls.argmax())
    return float(values[: end + 1].max()), float(values[end])
