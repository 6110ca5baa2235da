"""Noise about a curve that only rises, near the place where it crosses a level."""

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._noise.differences import noise


def variance_near(values: np.ndarray, fit: np.ndarray, best: int) -> float:
    """Return the variance of the noise, of all checkpoints or of those near a place, as sums of neighbours have it."""
    residual = values - fit
    near = slice(max(best - c.AROUND, 0), best + c.AROUND)
    # An accuracy is quiet once it is near 1: beside what comes before the crossing that would halve the noise.
    sides = [slice(near.start, best), slice(best, near.stop)]
    parts = [slice(None), near, *(side for side in sides if len(values[side]) == c.AROUND)]
    whole = max(_of(residual[part], fit[part]) for part in parts)
    if len(values[near]) >= c.AROUND:  # of fewer, second differences show the bends
        whole = max(whole, float(noise(values[near])) ** 2)
    size = float((residual**2).sum())
    rate = float((residual[1:] * residual[:-1]).sum()) / size if size > 0 else 0.0
    rate = min(max(rate, 0.0), c.STRONGEST)
    return whole * (1 + rate) / (1 - rate)


def _of(residual: np.ndarray, fit: np.ndarray) -> float:
    return float((residual**2).sum()) / max(len(fit) - len(np.unique(fit)), 1)
