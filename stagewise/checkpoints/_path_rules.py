"""Rules on the path of a series through the space of weights: which checkpoints lie off it, or are copies."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from stagewise.checkpoints._sketches import Sketch, Sketches, WeightPath

ENOUGH = 4
"""Checkpoints from which on an end can be judged."""

DETOUR = 4.0
"""A detour over a checkpoint is this many times the way between its neighbours.

A straight path has 1, a random walk 1.4, noise about a fixed point 2; a learning rate that changes adds to it. On the
clean series of the tests no weight of 256 entries exceeds 2.7.
"""

FEW = 64.0
"""And so many times more, divided by the number of entries: few directions fall together by chance."""

USUAL = 2.5
"""And this many times the median detour of the same weight over the other checkpoints."""

LONGEST = 1e9
"""The length of a detour between equal neighbours."""

FAR = 6.0
"""An end is so many times as far from its neighbour as any two other neighbours, beyond all weights' common growth."""

UNRELATED, RELATED = 0.3, 0.7
"""Weights with a lower cosine are of two trainings, those with a higher one of one."""

BREAK = 1.5
"""A stride to unrelated weights is so many times longer than any of the strides about it."""

ABOUT = 3
"""Strides on each side with which one is compared."""

GROWN = 1.5
"""Weights that become so many times longer after the first checkpoint started small, and may turn."""

MANY = 256
"""Entries of a weight that is never twice the same by chance."""

NEGLIGIBLE = 1e-6
"""A weight whose norm is below this part of the largest one's is moved by rounding alone, as the biases of keys are,
whose gradient is zero: it may stand still or come back."""

FIRST_UPDATE = {0, 1}
"""The steps whose weights may be the same: a learning rate that warms up from zero changes nothing at first."""


class Deviation(NamedTuple):
    """A checkpoint away from its neighbours; `other` has its weights, or is the end of a jump. No names are all."""

    checkpoint: int
    weights: tuple[str, ...] = ()
    times: float | None = None
    other: int | None = None


def _deviation(path: WeightPath, row: int, times: float) -> Deviation:
    return Deviation(int(path.rows[row]), (path.name,) if path.name else (), min(times, LONGEST))


def detours(path: WeightPath) -> Iterator[Deviation]:
    """Yield inner checkpoints off the path, whose neighbours lie close together."""
    ratios = detour_ratios(path)
    for i in np.flatnonzero(ratios > DETOUR + FEW / path.size):
        others = np.delete(ratios, i)
        if len(others) < 3 or ratios[i] > USUAL * np.median(others):
            yield _deviation(path, int(i) + 1, float(ratios[i]))


def zeroed(path: WeightPath) -> Iterator[Deviation]:
    """Yield the only checkpoint at which a weight is zero; many start as zeros."""
    rows = np.flatnonzero(path.norms == 0)
    if len(path) >= 3 and len(rows) == 1 and rows[0] > 0:
        yield _deviation(path, int(rows[0]), LONGEST)


def detour_ratios(path: WeightPath) -> Float[np.ndarray, " inner"]:
    """Return the way over each inner checkpoint, in units of the way between its neighbours.

        (|w_s - w_r| + |w_t - w_s|) / |w_t - w_r|,    r < s < t neighbours

    It counts as 1, that of a straight line, where one of the two parts is no longer than rounding.
    """
    if len(path) < 3:
        return np.empty(0)
    there, direct = path.strides(), path.strides(2)
    off = np.minimum(there[:-1], there[1:]) > path.precision * path.norms.max()
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(off, (there[:-1] + there[1:]) / direct, 1.0)


ENDS = ((-1, slice(None, -1)), (0, slice(1, None)))
"""The index of the last and of the first checkpoint, and the strides that are not its own."""


def end_growth(paths: Sequence[WeightPath]) -> tuple[float, float]:
    """Return by how much the last and the first stride exceed the longest of the others, in the median over weights."""
    moving = [strides for path in paths if len(strides := path.strides()) > 1 and min(strides) > 0]
    ratios = [[float(strides[end] / strides[others].max()) for end, others in ENDS] for strides in moving]
    # Of two weights the lower one: either may be the one that deviates.
    last, first = np.quantile(ratios, 0.5, axis=0, method="lower") if ratios else (1.0, 1.0)
    return max(1.0, float(last)), max(1.0, float(first))


def ends(path: WeightPath, common_growth: tuple[float, float]) -> Iterator[Deviation]:
    """Yield the first and the last checkpoint where this weight alone jumps there."""
    if len(path) < ENOUGH or not path.moves():
        return
    strides = path.strides()
    for (end, others), growth in zip(ENDS, common_growth, strict=True):
        times = float(strides[end] / strides[others].max() / growth)
        if times > FAR * (1 + FEW / path.size):
            yield _deviation(path, end % len(path), times)


def breaks(common: WeightPath, paths: Sequence[WeightPath], steps: Sequence[int]) -> Iterator[Deviation]:
    """Yield the checkpoints with which unrelated weights begin: another run, or an end that is of one."""
    # The length of a stride in units of what its gap of steps explains: between a walk's and a drift's.
    gaps = np.maximum(np.diff(np.array(steps, dtype=float)[common.rows]), 1.0)
    rates, likeness, last = common.strides() / gaps**0.75, _cosines(paths, common), len(common) - 2
    if len(common) < ENOUGH:
        return
    grown = common.norms[1] > GROWN * common.norms[0]
    for i in range(int(grown), last + 1):
        about = np.delete(rates[max(0, i - ABOUT) : i + ABOUT + 1], min(i, ABOUT))
        times = float(rates[i] / about.max()) if about.max() > 0 else 0.0
        if times > BREAK and likeness[i] < UNRELATED and np.median(np.delete(likeness, i)) > RELATED:
            first, second = int(common.rows[i]), int(common.rows[i + 1])
            yield Deviation(first, times=times) if i == 0 else Deviation(second, times=times, other=first)


def _cosines(paths: Sequence[WeightPath], common: WeightPath) -> np.ndarray:
    """Return the median cosine of matrices at neighbouring checkpoints; vectors, as gains, are alike in all models."""
    least = 2 * max((path.size for path in paths), default=0) ** 0.5  # a vector has about the root of a matrix's
    chosen = [path for path in paths if path.size > least and path.moves()]
    values = [path.at(common.rows).cosines() for path in chosen if np.isin(common.rows, path.rows).all()]
    return np.median(values, axis=0) if values else np.ones(len(common) - 1)


def same_checkpoints(sketches: Sequence[Sketches], paths: Sequence[WeightPath]) -> list[tuple[int, ...]]:
    """Return groups of checkpoints whose weights are all equal, of those weights that ever change, if any does."""
    moving = [path.name for path in paths if path.strides().any()] or [path.name for path in paths]
    groups: dict[tuple[tuple[str, int, float], ...], list[int]] = {}
    for index, one in enumerate(sketches):
        if key := tuple((name, one[name].bits, one[name].norm) for name in moving if name in one):
            groups.setdefault(key, []).append(index)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def stale(sketches: Sequence[Sketches], paths: Sequence[WeightPath], steps: Sequence[int]) -> list[Deviation]:
    """Return checkpoints of which a part of the weights, a shard or a layer, is another's, bit by bit."""
    shared: dict[tuple[int, int], list[WeightPath]] = {}
    largest = max((float(path.norms.max()) for path in paths), default=0.0)
    for path in paths:
        if float(path.norms.max()) < NEGLIGIBLE * largest or not path.moves():
            continue
        for first, second in _repetitions([sketches[row][path.name] for row in path.rows]):
            at = int(path.rows[first]), int(path.rows[second])
            if steps[at[0]] != steps[at[1]] and {steps[at[0]], steps[at[1]]} != FIRST_UPDATE:
                shared.setdefault(at, []).append(path)
    copies = []
    for (first, second), of in sorted(shared.items()):
        if max(path.size for path in of) < MANY:
            continue
        # The one that lies farther off the way of the others has the other's weights; of neighbours, the later one.
        off = [_off(path, second) - _off(path, first) if second > first + 1 else 0.0 for path in of]
        row, other = (second, first) if np.median(off) >= 0 else (first, second)
        copies.append(Deviation(row, tuple(path.name for path in of), other=other))
    return copies


def _off(path: WeightPath, checkpoint: int) -> float:
    """Return how long the detour over a checkpoint is; no end is on one, and the last one is the later copy."""
    row = int(np.flatnonzero(path.rows == checkpoint)[0])
    if row == 0:
        return 0.0
    return float(detour_ratios(path)[row - 1]) if row < len(path) - 1 else LONGEST


def _repetitions(sketches: Sequence[Sketch]) -> list[tuple[int, int]]:
    """Return pairs of rows at which a weight is the same, although it changes between them, or before and after."""
    rows: dict[int, list[int]] = {}
    for row, sketch in enumerate(sketches):
        if not sketch.uniform:  # many weights start as zeros or ones
            rows.setdefault(sketch.bits, []).append(row)
    pairs = [pair for same in rows.values() for pair in pairwise(same)]
    still = {first for first, second in pairs if second == first + 1}
    if len(sketches) < ENOUGH or len(still) > len(sketches) / 10 + 1:  # frozen for a while, or too coarse a type
        return []
    # What is still at the start may be frozen, or warm up; what stands still for long is.
    alone = {first for first in still if first > 0 and not {first - 1, first + 1} & still}
    return [(first, second) for first, second in pairs if second > first + 1 or first in alone]
