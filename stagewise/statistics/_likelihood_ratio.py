"""How large a likelihood ratio of one more transition noise alone gives: the null distribution of the scan.

The tables are what `python -m calibration.null_table` simulates, where a class has enough curves; the
calibration has the shares of nulls below p = .05 by them.
"""

import numpy as np

NUMBERS = (12, 20, 60, 150)
"""Numbers of checkpoints of the simulated nulls."""

CORRELATIONS = (0.0, 0.3, 0.62, 0.82, 0.95)
"""Lag-1 correlations that the fit with the transition estimates: the middles of their classes."""

MEDIANS = (
    (9.6, 9.6, 9.6, 9.6, 9.6),
    (9.3, 9.3, 9.3, 9.3, 9.3),
    (6.2, 7.9, 9.3, 9.6, 11.3),
    (6.0, 7.0, 8.2, 11.6, 15.0),
)
"""Medians of the statistic by number of checkpoints and estimated correlation."""

TWENTIETHS = (
    (25.0, 25.0, 25.0, 25.0, 25.0),
    (24.1, 24.1, 24.1, 24.1, 24.1),
    (16.2, 20.4, 20.4, 20.4, 22.0),
    (16.8, 16.8, 19.1, 20.6, 23.3),
)
"""What the statistic exceeds in one of twenty curves without the transition. Beyond a correlation of .9, where slower
noise than any that was simulated is estimated, it is larger than simulated."""

TOGETHER = {2: 1.8, 3: 3.2}
"""The statistic of so many transitions at once over that of one, in curves without any: of slow noise, the largest."""


def p_value(statistic: np.ndarray | float, n: int, correlation: np.ndarray | float) -> np.ndarray:
    """Return the probability of as large a statistic without the transition, with an exponential tail.

    Args:
        statistic: twice the difference in log likelihood.
        n: the number of checkpoints.
        correlation: of the noise, as the fit with the transition estimates it.

    The correlation is that of the fit with the transition: one that is left out looks like correlation.

    >>> bool(p_value(10.0, 60, 0.0) > 0.05 > p_value(20.0, 60, 0.0))
    True
    """
    median, twentieth = (_at(values, n, correlation) for values in (MEDIANS, TWENTIETHS))
    scale = (twentieth - median) / np.log(10)
    return np.asarray(0.5 * np.exp(np.minimum(-(statistic - median) / scale, np.log(2))))


def _at(values: tuple[tuple[float, ...], ...], n: int, correlation: np.ndarray | float) -> np.ndarray:
    """Interpolate a table, in the logarithm of the number of checkpoints."""
    rows = np.stack([np.interp(correlation, CORRELATIONS, row) for row in values])
    place = np.interp(np.log(n), np.log(NUMBERS), np.arange(len(NUMBERS)))
    lower = min(int(place), len(NUMBERS) - 2)
    return np.asarray(rows[lower] + (place - lower) * (rows[lower + 1] - rows[lower]))
