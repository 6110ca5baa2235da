"""Kinds of attention at every checkpoint: groups of heads with one pattern, followed from checkpoint to checkpoint."""

import itertools
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy

from stagewise.statistics import median_noise, running_median
from stagewise.table import Head, Role, heads_in, select, with_role

PATTERNS = Role.PATTERN, Role.ATTENTION_BY_OFFSET, Role.ATTENTION
"""Roles of what a head's pattern is read from: the first of these that the table has."""

OUTPUTS = Role.ALIGNMENT, Role.COPYING
"""Roles of what a head writes: readings in [-1, 1] that decide between kinds of like patterns, where there are any."""

APART = 0.5
"""Distance between two patterns of different kinds, of square roots of masses (Hellinger's without its factor): a head
that moves all of its attention from evenly over sixteen positions to one of them is as far away half-way. At 0.4
noise of .03 in each mass makes false events of 17 % in the long histories of `evidence/calibration/lineages.py`."""

HYSTERESIS = 1.25
"""Two heads of one kind part at a distance this much larger than APART, two of different kinds join at one smaller."""

DEVIATIONS = 3.0
"""Deviations of what noise adds to a squared distance by which it must exceed that."""

MEDIAN = 3
"""Checkpoints over which each reading's running median is taken: it leaves steps sharp."""

MARGIN = 0.33
"""Part of the limit, at most, by which noise widens it: with more no two heads would join, or part."""

CROSSING = 10
"""Checkpoints within which kinds may exchange their patterns gradually; then heads have changed places, not kinds."""

LAST = 5
"""Patterns of a kind before a crossing, of which one must be near for the kind not to have left its own."""


class Readings(NamedTuple):
    """The readings of every head at every checkpoint.

    `patterns` are square roots of masses by feature, `outputs` of [-1, 1], both [step, head, feature]; `extra` is what
    noise adds to the squared distance between two patterns: its mean, and its deviation.
    """

    steps: np.ndarray
    heads: list[Head]
    features: list[str]
    patterns: np.ndarray
    outputs: np.ndarray
    extra: tuple[float, float]


class Kinds(NamedTuple):
    """Which kind each head is of, [step, head], counted from 0 by first appearance; and each kind's last pattern."""

    labels: np.ndarray
    patterns: np.ndarray


def has_patterns(table: pd.DataFrame) -> bool:
    """Whether a table has patterns of heads to follow."""
    return bool(with_role(table, *PATTERNS))


def readings_of(table: pd.DataFrame) -> Readings | None:
    """Return the patterns of every head at every checkpoint of one run, and what they write; None without patterns.
    Every reading is replaced by its running median over three checkpoints; what is left of its noise is told from its
    second differences.
    """
    if not has_patterns(table):
        return None
    rows = select(table, *with_role(table, *PATTERNS)[0])
    axis = next(name for name in ("feature", "offset", "relation") if name in rows)
    heads, steps = heads_in(rows), np.sort(rows["step"].unique())
    features = rows[axis].drop_duplicates().tolist()
    masses = _array(rows, axis, steps, heads, features)
    roots = _median(np.sqrt(masses.clip(0)))
    written = (select(table, *pair) for pair in with_role(table, *OUTPUTS))
    outputs = [_median(_array(each, "feature", steps, heads, None)) for each in written]
    squares = median_noise(np.moveaxis(np.sqrt(masses.clip(0)), 0, -1)) ** 2
    mean = 2 * squares.sum(-1)
    # Of |d + e|^2 at the distance d that decides: the noise e on its own, and along d.
    deviation = np.sqrt(8 * (squares**2).sum(-1) + 8 * APART**2 * squares.mean(-1))
    names = [f"offset {name}" if axis == "offset" else str(name) for name in features]
    extra = float(np.median(mean)), float(np.median(deviation.clip(max=MARGIN * APART**2 / DEVIATIONS)))
    together = np.concatenate(outputs, -1) if outputs else np.zeros((*roots.shape[:2], 0))
    return Readings(steps, heads, names, roots, together, extra)


def kinds_of(readings: Readings) -> Kinds:
    """Return the kind of every head at every checkpoint.

    At each checkpoint heads are clustered by their patterns (average linkage up to the distance APART, beyond noise),
    where those that were of one kind before are taken as closer, and others as farther away, so that a head near the
    limit does not go to and fro. The clusters are assigned to the kinds so far (the Hungarian method) by pattern and
    output: first to those of the checkpoint before, then to earlier ones; what is within reach of none is a new kind.
    Kinds that within ten checkpoints take the patterns of each other are the other ones from then on: a kind is its
    pattern, not its heads.
    """
    labels = np.empty(readings.patterns.shape[:2], int)
    known: list[np.ndarray] = []
    past: list[dict[int, np.ndarray]] = []
    size = readings.patterns.shape[-1]
    for t, patterns in enumerate(readings.patterns):
        clusters = _clusters(patterns, labels[t - 1] if t else None, readings.extra)
        full = np.concatenate([patterns, readings.outputs[t]], -1)
        centres = [full[clusters == k].mean(0) for k in range(clusters.max() + 1)]
        chosen = _assigned(centres, known, list(past[-1]) if past else [], size, readings.extra)
        for k, kind in enumerate(chosen):
            known[kind:] = [centres[k]] if kind == len(known) else [centres[k], *known[kind + 1 :]]
        labels[t] = np.array(chosen)[clusters]
        past.append(dict(zip(chosen, centres, strict=True)))
        if names := _renamed(past, size, _limit(readings.extra)):
            _rename(labels, past, names)
            for kind, centre in past[-1].items():
                known[kind] = centre
    return Kinds(labels, np.array(known)[:, :size])


def _renamed(past: list[dict[int, np.ndarray]], size: int, limit: float) -> dict[int, int]:
    """Return kinds that have by now left their own pattern for that of another kind CROSSING checkpoints ago."""
    then = max(len(past) - 1 - CROSSING, 0)
    earlier, now = past[then], past[-1]
    gaps = np.array([[now[a] - earlier[b] for b in earlier] for a in now])
    squares = (gaps[..., :size] ** 2).sum(-1)
    rows, columns = scipy.optimize.linear_sum_assignment((gaps**2).sum(-1))
    own, other, names = list(now), list(earlier), dict[int, int]()
    for row, column in zip(rows, columns, strict=True):
        a, b = own[row], other[column]
        if a != b and squares[row, column] <= limit and _left(past[: then + 1], a, now[a], size, limit):
            names[a] = b
    while taken := [a for a, b in names.items() if b in now and b not in names]:
        del names[taken[0]]
    return names


def _left(past: list[dict[int, np.ndarray]], kind: int, centre: np.ndarray, size: int, limit: float) -> bool:
    """Whether a kind is far from its own last patterns: the very last may be of heads half-way to other places."""
    own = itertools.islice((of[kind] for of in reversed(past) if kind in of), LAST)
    return all(float(((centre - each)[:size] ** 2).sum()) > limit for each in own)


def _rename(labels: np.ndarray, past: list[dict[int, np.ndarray]], names: dict[int, int]) -> None:
    """Give kinds these other names, from the checkpoint on at which they came closer to their patterns."""
    last, start = len(past) - 1, past[max(len(past) - 1 - CROSSING, 0)]
    for t in range(last, max(last - CROSSING, 0), -1):
        here = {a: b for a, b in names.items() if a in past[t]}
        if t < last and any(b in past[t] and b not in here for b in here.values()):
            break
        own = sum(float(((past[t][a] - start[a]) ** 2).sum()) for a in here if a in start)
        other = sum(float(((past[t][a] - start[b]) ** 2).sum()) for a, b in here.items() if a in start)
        if not here or own < other:
            break
        before = labels[t].copy()
        kept = {kind: centre for kind, centre in past[t].items() if kind not in here}
        for a, b in here.items():
            labels[t][before == a] = b
        past[t] = kept | {b: past[t][a] for a, b in here.items()}


def near(a: np.ndarray, b: np.ndarray, extra: tuple[float, float]) -> bool:
    """Whether two patterns are of one kind, noise apart."""
    return bool(((a - b) ** 2).sum() <= _limit(extra))


def _limit(extra: tuple[float, float]) -> float:
    mean, deviation = extra
    return APART**2 + mean + DEVIATIONS * deviation


def _clusters(patterns: np.ndarray, previous: np.ndarray | None, extra: tuple[float, float]) -> np.ndarray:
    """Return the cluster of each head, from 0."""
    if len(patterns) < 2:
        return np.zeros(len(patterns), int)
    (mean, deviation), limit = extra, APART**2
    squares = np.maximum(scipy.spatial.distance.pdist(patterns, "sqeuclidean") - mean, 0)  # of each two heads
    if previous is not None:
        same = np.equal(*previous[np.stack(np.triu_indices(len(patterns), 1))])
        squares = np.where(same, squares / HYSTERESIS**2, squares * HYSTERESIS**2)
        squares = np.maximum(squares - np.where(same, DEVIATIONS * deviation, -DEVIATIONS * deviation), 0)
    else:
        limit += DEVIATIONS * deviation
    tree = scipy.cluster.hierarchy.linkage(np.sqrt(squares), "average")
    clusters: np.ndarray = pd.factorize(scipy.cluster.hierarchy.fcluster(tree, np.sqrt(limit), "distance"))[0]
    return clusters


def _assigned(
    centres: list[np.ndarray], known: list[np.ndarray], alive: list[int], size: int, extra: tuple[float, float]
) -> list[int]:
    """Return the kind of each cluster; new ones follow the known ones."""
    chosen: dict[int, int] = {}
    for candidates in (alive, [kind for kind in range(len(known)) if kind not in alive]):
        left = [k for k in range(len(centres)) if k not in chosen]
        if not (left and candidates):
            continue
        gaps = np.array([[centres[k] - known[kind] for kind in candidates] for k in left])
        apart = (gaps[..., :size] ** 2).sum(-1) > _limit(extra)
        cost = (gaps**2).sum(-1) + 1e6 * apart
        for row, column in zip(*scipy.optimize.linear_sum_assignment(cost), strict=True):
            if not apart[row, column]:
                chosen[left[row]] = candidates[column]
    fresh = itertools.count(len(known))
    return [chosen[k] if k in chosen else next(fresh) for k in range(len(centres))]


def _array(
    rows: pd.DataFrame, axis: str, steps: np.ndarray, heads: list[Head], features: list[object] | None
) -> np.ndarray:
    """Return values by [step, head, feature]; of what was not read of a head or at a step, 0."""
    if axis not in rows:
        rows, features = rows.assign(**{axis: ""}), [""]
    wide = rows.pivot_table(index="step", columns=["layer", "head", axis], values="value")
    features = rows[axis].drop_duplicates().tolist() if features is None else features
    columns = pd.MultiIndex.from_tuples([(*head, name) for head in heads for name in features])
    values: np.ndarray = np.nan_to_num(wide.reindex(index=steps, columns=columns).to_numpy(float))
    return values.reshape(len(steps), len(heads), len(features))


def _median(values: np.ndarray) -> np.ndarray:
    return running_median(values, MEDIAN, axis=0) if len(values) > MEDIAN else values
