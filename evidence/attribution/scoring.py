"""The linear datamodelling score of predicted effects against those of exact replays, beside its ceilings."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr

RESAMPLES = 1000
"""Of pairs of a draw and its complement, for an interval."""


class Rank(NamedTuple):
    """A rank correlation with its 95 % interval."""

    value: float
    lo: float
    hi: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.lo:.2f}, {self.hi:.2f}]"


def datamodelling_score(predicted: Float[np.ndarray, " draw"], true: Float[np.ndarray, " draw"]) -> Rank:
    """Return the rank correlation of predicted with true changes: Ilyas et al. (2022), arXiv:2202.00622.

    Draws are in pairs, each number with its complement, and resampled so: the two are not independent.
    """
    pairs = np.arange(len(true)).reshape(-1, 2)
    rng = np.random.default_rng(0)
    draws = [pairs[rng.integers(len(pairs), size=len(pairs))].ravel() for _ in range(RESAMPLES)]
    found = [spearmanr(predicted[draw], true[draw]).statistic for draw in draws]
    return Rank(float(spearmanr(predicted, true).statistic), *map(float, np.nanquantile(found, [0.025, 0.975])))


def additive_ceiling(true: Float[np.ndarray, " draw"]) -> float:
    """Return the largest correlation that any sum over samples can have with these changes.

    Such a sum changes its sign from a draw to its complement, so that it can only follow the odd part of the changes:
    the root of the odd part's share in their sum of squares.
    """
    pairs = true.reshape(-1, 2) - true.mean()
    odd = (pairs[:, 0] - pairs[:, 1]) / 2
    return float(np.sqrt(2 * np.square(odd).sum() / np.square(pairs).sum()))


def noise_ceiling(true: Float[np.ndarray, " draw"], again: Float[np.ndarray, " draw"]) -> float:
    """Return the rank correlation of changes with those of the same replays whose start is moved by rounding."""
    return float(spearmanr(true, again).statistic)


def crossing(steps: range, curve: Float[np.ndarray, " reading"], level: float) -> float:
    """Return the step at which a curve first reaches a level, between readings; inf where it does not.

    >>> crossing(range(0, 30, 10), np.array([0.0, 0.2, 0.6]), 0.5)
    17.5
    """
    above = np.flatnonzero(curve >= level)
    if not len(above):
        return float("inf")
    first = int(above[0])
    if first == 0:
        return float(steps[0])
    return float(np.interp(level, curve[first - 1 : first + 1], steps[first - 1 : first + 1]))
