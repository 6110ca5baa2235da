"""Long curves, averaged over stretches of steps."""

from typing import NamedTuple

import numpy as np


class Stretches(NamedTuple):
    """Stretches of steps: of each step the `place` of its stretch; of each stretch its mean step, its first and its
    last one, and the `number` of them.
    """

    place: np.ndarray
    steps: np.ndarray
    first: np.ndarray
    last: np.ndarray
    number: np.ndarray

    @classmethod
    def of(cls, steps: np.ndarray, most: int) -> "Stretches":
        """Return at most so many: each step where there are no more, else half of them of equally many steps, half
        equally long in the logarithm of the step.
        """
        if len(steps) <= most:
            return cls(np.arange(len(steps)), steps, steps, steps, np.ones(len(steps), int))
        since = steps - steps[0]
        even = since[np.linspace(0, len(since) - 1, most // 2).round().astype(int)]
        edges = np.union1d(even, np.geomspace(since[1], since[-1], most - most // 2))
        place = np.unique(np.searchsorted(edges, since, side="right"), return_inverse=True)[1]
        number = np.bincount(place)
        ends = np.cumsum(number)
        return cls(place, np.bincount(place, steps) / number, steps[ends - number], steps[ends - 1], number)

    @property
    def relative(self) -> tuple[float, ...] | None:
        """The deviations of means of so many, of white noise, over their geometric mean; None of single steps."""
        deviations = np.sqrt(np.exp(np.log(self.number).mean()) / self.number)
        return None if self.number.max() == 1 else tuple(deviations.tolist())

    def means(self, values: np.ndarray) -> np.ndarray:
        """Return the means of values [curve, step] over stretches."""
        sums = np.stack([np.bincount(self.place, each) for each in values])
        return np.asarray(sums / self.number)

    def whole(self, times: np.ndarray) -> np.ndarray:
        """Return times [part, (median, lo, hi)] in log(1 + step), intervals up to the ends of stretches."""
        if self.relative is None:
            return times
        u, end = np.log1p(self.steps), len(self.steps) - 1
        before = (np.searchsorted(u, times[:, 1], side="right") - 1).clip(min=0)
        after = np.searchsorted(u, times[:, 2]).clip(max=end)
        lo, hi = np.minimum(np.log1p(self.first[before]), times[:, 1]), np.log1p(self.last[after])
        return np.stack([times[:, 0], lo, np.maximum(hi, times[:, 2])], axis=1)
