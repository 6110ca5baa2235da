"""Long curves, averaged over stretches of steps, with the errors of the averages."""

from typing import NamedTuple

import numpy as np


class PooledCurve(NamedTuple):
    """Mean steps, mean values and their standard errors, and the first and last step: one each a stretch."""

    steps: np.ndarray
    values: np.ndarray
    errors: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def whole(self, times: np.ndarray) -> np.ndarray:
        """Return times [part, (median, lo, hi)] in log(1 + step), intervals up to the ends of stretches."""
        u, end = np.log1p(self.steps), len(self.steps) - 1
        before = (np.searchsorted(u, times[:, 1], side="right") - 1).clip(min=0)
        after = np.searchsorted(u, times[:, 2]).clip(max=end)
        lo, hi = np.minimum(np.log1p(self.first[before]), times[:, 1]), np.log1p(self.last[after])
        return np.stack([times[:, 0], lo, np.maximum(hi, times[:, 2])], axis=1)


def averaged(steps: np.ndarray, values: np.ndarray, most: int) -> PooledCurve:
    """Return a curve in at most so many stretches, half of them equally long in the logarithm of the step.

    The error of a mean is what the differences of neighbours say of the noise, over the square root of their number; of
    stretches with few, what those around them say.
    """
    since = steps - steps[0]
    edges = np.union1d(np.linspace(0, since[-1], most // 2), np.geomspace(since[1], since[-1], most - most // 2))
    place = np.unique(np.searchsorted(edges, since, side="right"), return_inverse=True)[1]
    number = np.bincount(place)
    means = [np.bincount(place, weights) / number for weights in (steps, values)]
    squares = np.append(np.diff(values) ** 2 / 2, 0)
    variance = np.bincount(place, squares) / number
    # The last of a few differences may be that to the next stretch: five stretches together.
    around = np.convolve(variance * number, np.ones(5), "same") / np.convolve(number, np.ones(5), "same")
    least = np.finfo(float).eps * max(float(np.abs(values).max()), 1e-300)
    ends = np.cumsum(number)
    first, last = steps[ends - number], steps[ends - 1]
    return PooledCurve(means[0], means[1], np.sqrt(around / number) + least, first, last)
