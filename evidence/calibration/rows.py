"""A row of the calibration: what was counted, how often, with its interval and its goal."""

from typing import Literal, NamedTuple

import numpy as np

Z = 1.96
"""Normal quantile of a 95 % interval."""


class Row(NamedTuple):
    """A share over repetitions with its 95 % interval, the goal, and which side of it is better."""

    name: str
    value: float
    low: float
    high: float
    goal: float
    better: Literal["higher", "lower"]
    repetitions: int

    def __str__(self) -> str:
        met = self.value >= self.goal if self.better == "higher" else self.value <= self.goal
        sign = ">=" if self.better == "higher" else "<="
        return (
            f"{self.name:<64} {self.value:5.2f} [{self.low:.2f}, {self.high:.2f}]  {sign} {self.goal:.2f} "
            f"{'' if met else 'MISSED':6} n = {self.repetitions}"
        )


def share(name: str, hits: list[bool], goal: float, better: Literal["higher", "lower"]) -> Row:
    """Return the share of hits with Wilson's interval.

    >>> share("heads", [True] * 5 + [False] * 5, 0.5, "higher").value
    0.5
    """
    n, p = max(len(hits), 1), float(np.mean(hits)) if hits else 0.0
    centre, spread = p + Z**2 / (2 * n), Z * np.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    low, high = ((centre + sign * spread) / (1 + Z**2 / n) for sign in (-1, 1))
    return Row(name, round(p, 4), round(max(low, 0.0), 4), round(min(high, 1.0), 4), goal, better, len(hits))
