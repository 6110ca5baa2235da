"""Where a series continues from other weights, and where it starts to move faster or slower."""

from collections.abc import Iterator, Sequence

import numpy as np

from stagewise.checkpoints._outliers import RELATED, UNRELATED, cosines
from stagewise.checkpoints._weight_path import Deviation, WeightPath

BREAK = 1.5
"""A break is so many times longer than any of the strides about it."""

ABOUT = 3
"""Strides on each side with which one is compared."""

FASTER = 4.0
"""Strides that change by this factor, and stay, show that the learning rate has changed."""

STAYS = 2.0
"""They vary by no more than this factor before, and after."""


def breaks(common: WeightPath, paths: Sequence[WeightPath], steps: Sequence[int]) -> Iterator[Deviation]:
    """Yield the checkpoints with which unrelated weights begin, as of another run, after which the series continues."""
    rates, likeness = _rates(common, steps), cosines(paths, common)
    for i in range(1, len(rates) - 1):
        about = np.delete(rates[max(0, i - ABOUT) : i + ABOUT + 1], min(i, ABOUT))
        beside = np.delete(likeness, i)
        times = float(rates[i] / about.max()) if about.max() > 0 else 0.0
        if times > BREAK and likeness[i] < UNRELATED and np.median(beside) > RELATED:
            yield Deviation(int(common.rows[i + 1]), times=times, other=int(common.rows[i]))


def rate_jumps(common: WeightPath, steps: Sequence[int]) -> Iterator[Deviation]:
    """Yield where strides over equal gaps become longer or shorter at once, and stay so: no fault."""
    rates, gaps = _rates(common, steps), np.diff(np.array(steps, dtype=float)[common.rows])
    for i in range(ABOUT, len(rates) - ABOUT + 1):
        before, after = rates[i - ABOUT : i], rates[i : i + ABOUT]
        even = len(set(gaps[i - ABOUT : i + ABOUT])) == 1 and min(before.min(), after.min()) > 0
        if even and before.max() < STAYS * before.min() and after.max() < STAYS * after.min():
            times = float(np.median(after) / np.median(before))
            if max(times, 1 / times) > FASTER:
                yield Deviation(int(common.rows[i]), times=times, other=int(common.rows[i + 1]))


def _rates(common: WeightPath, steps: Sequence[int]) -> np.ndarray:
    """Return the length of each stride in units of what its gap of steps explains: between a walk's and a drift's."""
    gaps = np.diff(np.array(steps, dtype=float)[common.rows])
    rates: np.ndarray = common.strides() / np.maximum(gaps, 1.0) ** 0.75
    return rates
