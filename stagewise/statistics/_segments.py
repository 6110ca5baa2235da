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
    length = np.arange(n + 1) - np.arange(n + 1)[:, None]
    within = squares - squares[:, None] - (total - total[:, None]) ** 2 / length.clip(min=1)
    within[length < c.BEFORE] = np.inf
    least, begins = within[0], []
    for _ in range(number):
        ways = least[:, None] + within
        begins.append(ways.argmin(0))
        least = ways.min(0)
    end, found = n, []
    for begin in reversed(begins):
        end = int(begin[end])
        found.append(end - 1)
    return np.array(found[::-1], int)
