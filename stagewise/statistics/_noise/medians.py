"""Noise that running medians over three checkpoints leave in many curves at once."""

import numpy as np

from stagewise.statistics import _constants as c
from stagewise.statistics._noise.differences import correlation, noise


def median_noise(roots: np.ndarray) -> np.ndarray:
    """Return the variance of what noise leaves in running medians of curves [step, ...]: [...]."""
    curves = np.moveaxis(roots, 0, -1)
    rate = min(float(np.median(correlation(curves))), c.SLOWEST)
    # Second differences see less of slow noise, and running medians leave more of it.
    return np.asarray(
        noise(curves) ** 2 * 6 / (6 - 8 * rate + 2 * rate**2) * (c.LEFT_BY_MEDIANS + (1 - c.LEFT_BY_MEDIANS) * rate)
    )
