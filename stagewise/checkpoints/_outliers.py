"""Checkpoints that lie off the path of the others, or from which it continues elsewhere, faster or slower."""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from stagewise.checkpoints._sketches import COARSE, ENOUGH, MANY, Deviation, WeightPath, norm

DETOUR = 4.0
"""A detour over a checkpoint is this many times the way between its neighbours.

A straight path has 1, a random walk 1.4, noise about a fixed point 2; a learning rate that changes adds to it. On the
clean series of the tests no weight of 256 entries exceeds 2.7.
"""

LONGEST = 1e9
"""The length of a detour between equal neighbours."""

FEW = 64.0
"""And so many times more, divided by the number of entries: few directions fall together by chance."""

USUAL = 2.5
"""And this many times the median detour of the same weight over the other checkpoints."""

FAR = 6.0
"""An end is so many times as far from its neighbour as any two other neighbours, beyond all weights' common growth."""

UNRELATED = 0.3
"""Weights with a lower cosine are unrelated: those of two seeds have about 0."""

RELATED = 0.7
"""Weights with a higher cosine belong to one training."""

TURNED = 0.5
"""The cosine with its neighbour of a weight that turns at an end."""

TURN = 1.5
"""An end to which weights turn is at least so many times as far as any two other neighbours."""

STRAIGHT = 0.8
"""The least cosine between other neighbours of a weight that does not turn elsewhere."""

FLIPPED = -0.8
"""The cosine with a neighbour of a weight that points away from it."""

GROWN = 1.5
"""A weight that becomes so many times longer after the first checkpoint started small, and may turn."""

SCALED = 0.05
"""Logarithm of a factor by which all weights may change together."""


def detours(path: WeightPath) -> Iterator[Deviation]:
    """Yield inner checkpoints off the path, whose neighbours lie close together; `breaks` has two off together."""
    ratios = detour_ratios(path)
    for i in np.flatnonzero(ratios > DETOUR + FEW / path.size):
        others = np.delete(ratios, i)
        if len(others) < 3 or ratios[i] > USUAL * np.median(others):
            yield _deviation(path, int(i) + 1, min(float(ratios[i]), LONGEST))


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
        ratios: np.ndarray = np.where(off, (there[:-1] + there[1:]) / direct, 1.0)
    return ratios


def _deviation(path: WeightPath, row: int, times: float) -> Deviation:
    return Deviation(int(path.rows[row]), (path.name,) if path.name else (), times, scale=_scale(path, row))


def _scale(path: WeightPath, row: int) -> float:
    usual = float(np.mean(path.norms[path.beside(row)]))
    return float(path.norms[row] / usual) if usual else np.inf


def vanished(path: WeightPath) -> Iterator[Deviation]:
    """Yield the checkpoints at which a part of a weight is zero that is not at its neighbours, as of one head."""
    if len(path) < 3:
        return
    least = max(2.0, path.size / (256 if path.precision < COARSE else 16))  # coarse types round to zero
    for row in range(1, len(path)):
        after = path.zeros[row + 1] if row + 1 < len(path) else path.zeros[:row].max()
        if path.zeros[row] - max(path.zeros[row - 1], after) >= max(least, _rounded_to_zero(path, row)):
            yield _deviation(path, row, np.inf)


def _rounded_to_zero(path: WeightPath, row: int) -> float:
    """Return how many entries more than at its neighbours chance makes zero: as in weights of 8 bits in wider types."""
    others = np.delete(path.zeros, row)
    others = others[others < path.size]  # many weights start as zeros
    if not len(others):
        return 0.0
    return float(max(np.median(others) + 4 * np.sqrt(others.max()), 1.5 * np.ptp(others)))


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
    """Yield the first and the last checkpoint where this weight alone jumps there, or turns."""
    if len(path) < ENOUGH or not path.moves():
        return
    strides, likeness = path.strides(), path.cosines()
    for (end, others), growth in zip(ENDS, common_growth, strict=True):
        usual = max(float(strides[others].max()), path.precision * float(path.norms.max()))
        row, times = end % len(path), float(strides[end] / usual / growth)
        turned = path.size >= MANY and likeness[end] < TURNED and likeness[others].min() > STRAIGHT
        # A weight that starts small soon points elsewhere, and is longer then.
        grown = end == 0 and _scale(path, row) < 1 / GROWN
        if times > FAR * (1 + FEW / path.size) or (turned and not grown and times > TURN):
            yield _deviation(path, row, times)


def flipped(path: WeightPath) -> Iterator[Deviation]:
    """Yield the checkpoints at which a weight points away from all of its neighbours."""
    if path.size < MANY or len(path) < ENOUGH:
        return
    away = np.pad(path.cosines() < FLIPPED, 1, constant_values=True)
    rows = away[:-1] & away[1:]
    rows[[0, -1]] &= ~rows[[1, -2]]  # an end points away from a flipped neighbour, too
    for row in map(int, np.flatnonzero(rows)):
        away_by, usual = norm(path.numbers[path.beside(row)] - path.numbers[row]).max(), np.median(path.strides())
        yield _deviation(path, row, min(float(away_by / usual), LONGEST) if usual > 0 else LONGEST)


def foreign_ends(common: WeightPath, paths: Sequence[WeightPath]) -> Iterator[Deviation]:
    """Yield the first and the last checkpoint where all weights together are unrelated to the others, or scaled."""
    if len(common) < ENOUGH:
        return
    strides, likeness = common.strides(), cosines(paths, common)
    for end, others in ENDS:
        row, times = end % len(common), float(strides[end] / strides[others].max())
        scale, (neighbour,) = _scale(common, row), common.beside(row)
        unrelated = likeness[end] < UNRELATED and likeness[others].min() > RELATED
        grown = end == 0 and scale < 1 / GROWN
        decayed = end == 0 and scale > 1  # by a weight decay that soon has its equilibrium
        scaled = not decayed and _scaled_together(paths, int(common.rows[end]), int(common.rows[neighbour]))
        if (unrelated or scaled) and not grown and times > TURN:
            yield _deviation(common, row, times)


def _scaled_together(paths: Sequence[WeightPath], checkpoint: int, neighbour: int) -> bool:
    """Whether all weights, gains and matrices alike, are longer or shorter by one factor: no training does that."""
    logs = []
    for path in paths:
        lengths = [float(path.norms[path.rows == row][0]) for row in (checkpoint, neighbour) if row in path.rows]
        if len(lengths) == 2 and min(lengths) > 0:
            logs.append(float(np.log(lengths[0] / lengths[1])))
    if len(logs) < ENOUGH:
        return False
    low, middle, high = np.quantile(logs, [0.25, 0.5, 0.75])
    return bool(abs(middle) > SCALED and high - low < abs(middle) / 4)


def cosines(paths: Sequence[WeightPath], common: WeightPath) -> np.ndarray:
    """Return the median cosine of matrices at neighbouring checkpoints; vectors, as gains, are alike in all models."""
    least = 2 * max((path.size for path in paths), default=0) ** 0.5  # a vector has about the root of a matrix's
    chosen = [path for path in paths if path.size > least and path.moves()]
    chosen = [path for path in chosen if np.isin(common.rows, path.rows).all()]
    values = [path.at(common.rows).cosines() for path in chosen]
    return np.median(values, axis=0) if values else np.ones(len(common) - 1)


BREAK = 1.5
"""A break is so many times longer than any of the strides about it."""

ABOUT = 3
"""Strides on each side with which one is compared."""

FASTER = 4.0
"""Strides that change by this factor, and stay, show that the learning rate has changed."""

STAYS = 2.0
"""They vary by no more than this factor before, and after."""


def breaks(common: WeightPath, paths: Sequence[WeightPath], steps: Sequence[int]) -> Iterator[Deviation]:
    """Yield the checkpoints with which unrelated weights begin, as of another run, after which the series continues."""
    rates, likeness = _rates(common, steps), cosines(paths, common)
    for i in range(1, len(rates) - 1):
        about = np.delete(rates[max(0, i - ABOUT) : i + ABOUT + 1], min(i, ABOUT))
        beside = np.delete(likeness, i)
        times = float(rates[i] / about.max()) if about.max() > 0 else 0.0
        if times > BREAK and likeness[i] < UNRELATED and np.median(beside) > RELATED:
            yield Deviation(int(common.rows[i + 1]), times=times, other=int(common.rows[i]))


def rate_jumps(common: WeightPath, steps: Sequence[int]) -> Iterator[Deviation]:
    """Yield where strides over equal gaps become longer or shorter at once, and stay so: no fault."""
    rates, gaps = _rates(common, steps), np.diff(np.array(steps, dtype=float)[common.rows])
    for i in range(ABOUT, len(rates) - ABOUT + 1):
        before, after = rates[i - ABOUT : i], rates[i : i + ABOUT]
        even = len(set(gaps[i - ABOUT : i + ABOUT])) == 1 and min(before.min(), after.min()) > 0
        if even and before.max() < STAYS * before.min() and after.max() < STAYS * after.min():
            times = float(np.median(after) / np.median(before))
            if max(times, 1 / times) > FASTER:
                yield Deviation(int(common.rows[i]), times=times, other=int(common.rows[i + 1]))


def _rates(common: WeightPath, steps: Sequence[int]) -> np.ndarray:
    """Return the length of each stride in units of what its gap of steps explains: between a walk's and a drift's."""
    gaps = np.diff(np.array(steps, dtype=float)[common.rows])
    rates: np.ndarray = common.strides() / np.maximum(gaps, 1.0) ** 0.75
    return rates
