"""Weights that stand under a wrong step: copies, of whole checkpoints or of a part, and two that hold each other's."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise

import numpy as np

from stagewise.checkpoints._outliers import detour_ratios
from stagewise.checkpoints._sketches import ENOUGH, MANY, Deviation, Sketch, WeightPath, norm

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

NEARLY = 1e-3
"""Checkpoints nearer to each other than this part of the way to their other neighbours are copies of one."""

MOVES = 5.0
"""A weight whose usual stride is so many times its type's precision is never twice the same by rounding."""

FINE = 1e-3
"""Nor one of `MANY` entries, or of a type with at least this precision, if it moves by a fiftieth of that."""

NEGLIGIBLE = 1e-6
"""A weight whose norm is below this part of the largest one's is moved by rounding alone, as the biases of keys are,
whose gradient is zero: it may stand still or come back."""

FIRST_UPDATE = (0, 1)
"""The steps whose weights may be the same: a learning rate that warms up from zero changes nothing at first."""


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


def same_checkpoints(sketches: Sequence[Mapping[str, Sketch]], paths: Sequence[WeightPath]) -> list[tuple[int, ...]]:
    """Return groups of checkpoints whose weights are all equal, of those weights that ever change, if any does."""
    moving = [path.name for path in paths if path.strides().any()] or [path.name for path in paths]
    groups: dict[tuple[tuple[str, int, float], ...], list[int]] = {}
    for index, one in enumerate(sketches):
        key = tuple((name, one[name].bits, one[name].norm) for name in moving if name in one)
        if key:
            groups.setdefault(key, []).append(index)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def near_copies(common: WeightPath) -> Iterator[Deviation]:
    """Yield checkpoints that differ from another by next to nothing, though the series moves before and after."""
    n = len(common)
    if n < ENOUGH:
        return
    distances, strides = all_distances(common), common.strides()
    np.fill_diagonal(distances, np.inf)
    for row in range(n):
        other = int(distances[row].argmin())
        ways = [k for k in (other - 1, other, row - 1, row) if 0 <= k < n - 1 and {k, k + 1} != {row, other}]
        if other < row and 0 < distances[row, other] < NEARLY * (least := min(strides[ways])):
            times = float(distances[row, other] / least)
            yield Deviation(int(common.rows[row]), times=times, other=int(common.rows[other]))


def stale(
    sketches: Sequence[Mapping[str, Sketch]], paths: Sequence[WeightPath], common: WeightPath, steps: Sequence[int]
) -> list[Deviation]:
    """Return checkpoints of which a part of the weights, a shard or a layer, is another's, bit by bit."""
    shared: dict[tuple[int, int], list[tuple[str, float]]] = {}
    largest = max((float(path.norms.max()) for path in paths), default=0.0)
    for path in paths:
        if float(path.norms.max()) < NEGLIGIBLE * largest:
            continue
        of_weight = [sketches[row][path.name] for row in path.rows]
        for first, second in _repetitions(path, of_weight):
            at = int(path.rows[first]), int(path.rows[second])
            if steps[at[0]] != steps[at[1]] and {steps[at[0]], steps[at[1]]} != set(FIRST_UPDATE):
                shared.setdefault(at, []).append((path.name, _strain(path, common, first, second)))
    copies = []
    for (first, second), weights in sorted(shared.items()):
        names, strains = zip(*weights, strict=True)
        later = float(np.median(strains)) >= 0
        row, other = (second, first) if later else (first, second)
        copies.append(Deviation(row, names, other=other))
    return copies


def _repetitions(path: WeightPath, sketches: Sequence[Sketch]) -> list[tuple[int, int]]:
    """Return pairs of rows at which a weight is the same, although it changes between them, or before and after."""
    if len(path) < ENOUGH:
        return []
    rows: dict[int, list[int]] = {}
    for row, sketch in enumerate(sketches):
        if not sketch.uniform:  # many weights start as zeros or ones
            rows.setdefault(sketch.bits, []).append(row)
    pairs = [pair for same in rows.values() for pair in pairwise(same)]
    still = {first for first, second in pairs if second == first + 1}
    if len(still) > len(path) / 10 + 1:  # frozen for a while, or too coarse a type
        return []
    # What is still at the start may be frozen, or warm up; what stands still for long is.
    alone = {first for first in still if first > 0 and not {first - 1, first + 1} & still}
    pairs = [(first, second) for first, second in pairs if second > first + 1 or first in alone]
    return [(first, second) for first, second in pairs if _moves(path, first, second)]


def _moves(path: WeightPath, first: int, second: int) -> bool:
    """Whether the weight moves so much, about two rows, that it is not twice the same by rounding."""
    strides = path.strides()
    about = [k for k in (first - 1, first, second - 1, second) if 0 <= k < len(strides) and strides[k] > 0]
    rounding = path.precision * float(path.norms.max())
    needed = MOVES * rounding if path.size < MANY and path.precision > FINE else MOVES * rounding / 50
    return bool(about) and float(min(strides[about])) > needed


def _strain(path: WeightPath, common: WeightPath, first: int, second: int) -> float:
    """Return by how much the second of two rows lies farther off the way of the others than the first. The one that
    lies farther off has the other's weights.
    """
    last = len(path) - 1
    if second > first + 1 and first > 0 and second < last:
        ratios = detour_ratios(path)
        return float(ratios[second - 1] - ratios[first - 1])
    if second == last:
        return np.inf
    usual = dict(zip(zip(common.rows, common.rows[1:], strict=False), common.strides(), strict=True))

    def longest(row: int, partner: int) -> float:
        ways = [(min(k, row), max(k, row)) for k in (row - 1, row + 1) if 0 <= k <= last and k != partner]
        lengths = [
            float(norm(path.numbers[k] - path.numbers[j])) / usual.get((int(path.rows[j]), int(path.rows[k])), np.inf)
            for j, k in ways
        ]
        return max(lengths, default=0.0)

    return longest(second, first) - longest(first, second)
