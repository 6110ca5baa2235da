"""How large a likelihood ratio of one more transition noise alone gives: the null distribution of the scan.

The tables are what `python -m calibration.null_table` simulates, where a class has enough curves; the
calibration has the shares of nulls below p = .05 by them.
"""

import numpy as np

from stagewise.statistics import _constants as c


def p_value(statistic: np.ndarray | float, n: int, correlation: np.ndarray | float) -> np.ndarray:
    """Return the probability of as large a statistic, twice the difference in log likelihood, without the transition.
    The noise's correlation is that of the fit with the transition: one that is left out looks like correlation.
    """
    median, twentieth = (_at(values, n, correlation) for values in (c.NULL_MEDIANS, c.NULL_TWENTIETHS))
    scale = (twentieth - median) / np.log(10)
    return np.asarray(0.5 * np.exp(np.minimum(-(statistic - median) / scale, np.log(2))))


def _at(values: tuple[tuple[float, ...], ...], n: int, correlation: np.ndarray | float) -> np.ndarray:
    """Interpolate a table, in the logarithm of the number of checkpoints."""
    rows = np.stack([np.interp(correlation, c.NULL_CORRELATIONS, row) for row in values])
    place = np.interp(np.log(n), np.log(c.NULL_CHECKPOINTS), np.arange(len(c.NULL_CHECKPOINTS)))
    lower = min(int(place), len(c.NULL_CHECKPOINTS) - 2)
    return np.asarray(rows[lower] + (place - lower) * (rows[lower + 1] - rows[lower]))
