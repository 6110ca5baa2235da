"""A quantity of several seeds, each with an error of its own: its mean, its spread, and what another seed has."""

from typing import NamedTuple

import numpy as np
import scipy

from stagewise.statistics import _constants as c


class Pooled(NamedTuple):
    """The mean over seeds with its 95 % interval, that of one more seed, and the deviation between seeds. `lo` and `hi`
    hold the mean over all seeds that could be drawn, `new_lo` and `new_hi` one more seed, measured like these;
    `between` is the standard deviation of the seeds' own values, what each one's error adds taken off.
    """

    mean: float
    lo: float
    hi: float
    new_lo: float
    new_hi: float
    between: float


def pooled(values: np.ndarray, errors: np.ndarray) -> Pooled:
    """Return the mean of value_i ~ N(mean, between^2 + error_i^2) with Student's t intervals over seeds, n - 1 degrees.

    All seeds count alike: weights from estimated variances cover less often where there are few seeds (0.91 for ten,
    docs/records/statistics.md), and an error too small takes the mean over. One seed alone says nothing about others:
    its intervals are infinite.

    Args:
        values: one a seed.
        errors: the standard error of each; they decide `between` alone.

    >>> round(pooled(np.array([1.0, 2.0, 3.0]), np.zeros(3)).lo, 3)
    -0.484
    """
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return Pooled(mean, -np.inf, np.inf, -np.inf, np.inf, 0.0)
    variance = float(np.var(values, ddof=1))
    quantile = float(scipy.stats.t.ppf((1 + c.LEVEL) / 2, n - 1))
    margin, new = (quantile * float(np.sqrt(variance * part)) for part in (1 / n, 1 + 1 / n))
    between = float(np.sqrt(max(variance - float(np.mean(np.square(errors))), 0.0)))
    return Pooled(mean, mean - margin, mean + margin, mean - new, mean + new, between)
