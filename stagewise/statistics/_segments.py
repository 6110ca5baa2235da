"""Levels with jumps between them: where a staircase has its steps."""

import numpy as np

from stagewise.statistics import _constants as c


def jumps(curve: np.ndarray, number: int) -> np.ndarray:
    """Return after which checkpoints so many jumps lie that leave the least squares about the levels between them.

    Fewer where the curve is too short: each level lasts BEFORE checkpoints at least.

    Source: Bellman (1961), On the approximation of curves by line segments using dynamic programming.

    >>> jumps(np.array([0.0, 0.1, 5.0, 5.1, 5.0, 1.0, 1.1]), 2).tolist()
    [1, 4]
    """
    n = len(curve)
    number = min(number, n // c.BEFORE - 1)
    total, squares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (curve, curve**2))
    # Up to each end, with so many jumps: the least squares, and where the last level begins.
    least, begins = np.full((number + 1, n + 1), np.inf), np.zeros((number + 1, n + 1), int)
    for end in range(c.BEFORE, n + 1):
        begin = np.arange(end - c.BEFORE + 1)
        within = squares[end] - squares[begin] - (total[end] - total[begin]) ** 2 / (end - begin)
        least[0, end], ways = within[0], least[:-1, begin] + within
        least[1:, end], begins[1:, end] = ways.min(1), ways.argmin(1)
    found = [n]
    for of_jumps in reversed(begins[1:]):
        found.insert(0, of_jumps[found[0]])
    return np.array(found[:-1], int) - 1
