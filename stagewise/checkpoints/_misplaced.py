"""Checkpoints that hold each other's weights: exchanging the two makes the path of the series shorter."""

from itertools import combinations

import numpy as np

from stagewise.checkpoints._weight_path import ENOUGH, WeightPath

SHORTER = 1.12
"""The ways to and from two checkpoints are this many times longer than after an exchange.

On a straight path the factor is 1.67, on a random walk 1.28, in noise about a fixed point 1: what is exchanged there
cannot be seen, and makes no difference. On the clean series of the tests it is at most 1.01.
"""

WORSE = 1.02
"""The ways to and from each of the two may grow by this factor."""

NEAR = 5
"""Checkpoints so far apart are tried in any case; farther ones, where both are off the path."""

OFF = 1.8
"""A detour of so many times the way between the neighbours, of a checkpoint that is tried with all others."""

MOST = 40
"""Checkpoints that are tried with all others."""

EXCHANGES = 20
"""As many are looked for."""

NUMBERS = 2048
"""Numbers of a checkpoint that are made double at a time."""


def exchanged(common: WeightPath) -> list[tuple[int, int]]:
    """Return the pairs of rows of the common path that hold each other's weights."""
    if len(common) < ENOUGH:
        return []
    distances = all_distances(common)
    order = list(range(len(common)))
    pairs: list[tuple[int, int]] = []
    for _ in range(EXCHANGES):
        gain, first, second = max(
            ((_gain(distances, order, i, j), i, j) for i, j in _candidates(distances, order)), default=(0.0, 0, 0)
        )
        if gain < SHORTER:
            break
        order[first], order[second] = order[second], order[first]
        pairs.append((first, second))
    return [(i, j) for i, j in pairs if order[i] == j and order[j] == i]


def _candidates(distances: np.ndarray, order: list[int]) -> set[tuple[int, int]]:
    n = len(order)
    near = {(i, j) for i in range(n) for j in range(i + 1, min(n, i + NEAR + 1))}
    detour = [
        (distances[a, b] + distances[b, c]) / max(distances[a, c], 1e-30)
        for a, b, c in zip(order, order[1:], order[2:], strict=False)
    ]
    off = [int(row) + 1 for row in np.argsort(detour)[::-1][:MOST] if detour[row] > OFF]
    return near | set(combinations(sorted([0, *off, n - 1]), 2))


def _gain(distances: np.ndarray, order: list[int], i: int, j: int) -> float:
    """Return how many times longer the ways to two rows are than after their exchange; 1 where one is no better."""
    place = {i: order[j], j: order[i]}
    ways = [[k for k in (row - 1, row) if 0 <= k < len(order) - 1] for row in (i, j)]
    before = {k: float(distances[order[k], order[k + 1]]) for k in (*ways[0], *ways[1])}
    after = {k: float(distances[place.get(k, order[k]), place.get(k + 1, order[k + 1])]) for k in before}
    if any(sum(after[k] for k in near) > WORSE * sum(before[k] for k in near) for near in ways):
        return 1.0
    length = sum(after.values())
    return sum(before.values()) / length if length > 0 else 1.0


def all_distances(common: WeightPath) -> np.ndarray:
    """Return the distances between all pairs of rows."""
    products = np.zeros((len(common), len(common)))
    for start in range(0, common.numbers.shape[1], NUMBERS):  # a part at a time: a series has many checkpoints
        part = common.numbers[:, start : start + NUMBERS].astype(np.float64)
        part -= part.mean(0)
        products += part @ part.T
    squares = products.diagonal()
    distances: np.ndarray = np.sqrt(np.maximum(squares[:, None] + squares - 2 * products, 0))
    return distances
