"""Heads that move between kinds of attention, as events: births, splits, changes, merges, deaths, swaps and moves."""

import itertools
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np

Event = Literal["birth", "split", "change", "merge", "death", "swap", "move"]

WITHIN = 10
"""Checkpoints within which two moves in opposite directions are one swap: patterns that cross are alike half-way."""


PASSING = 5
"""Checkpoints: what lasts for fewer, all in all, and not at the end, is no kind but heads on their way to one."""


class Move(NamedTuple):
    """Heads that go from the kinds `before` to the kinds `after`; of a swap both are all kinds that take part."""

    event: Event
    before: tuple[int, ...]
    after: tuple[int, ...]
    heads: tuple[int, ...]


IsStart = Callable[[int, int], bool]
"""Whether at a checkpoint a kind still has the pattern that all heads started with."""


def without_short(labels: np.ndarray, dwell: int) -> np.ndarray:
    """Return labels [step, head] without visits of fewer than `dwell` checkpoints: the head keeps its last one."""
    result = labels.copy()
    for head in range(labels.shape[1]):
        runs = [(label, len(list(group))) for label, group in itertools.groupby(labels[:, head].tolist())]
        kept = next((label for label, length in runs if length >= dwell), runs[-1][0])
        line: list[int] = []
        for label, length in runs:
            kept = label if length >= dwell else kept
            line += [kept] * length
        result[:, head] = line
    return result


def without_passing(labels: np.ndarray) -> np.ndarray:
    """Return labels [step, head] without kinds that fewer than PASSING checkpoints see: heads go on to the next."""
    result = labels.copy()
    for kind in np.unique(labels[:-1]):
        seen = (labels == kind).any(1)
        if seen.sum() < PASSING and not seen[-1] and not seen[0]:
            for t in np.flatnonzero(seen)[::-1]:
                of = result[t] == kind
                result[t, of] = result[t + 1, of]
    return result


def moves_of(labels: np.ndarray, is_start: IsStart) -> Iterator[tuple[int, Move]]:
    """Yield every event with the checkpoint that is the first after it."""
    swaps = _swaps(labels)
    taken = {(at, head) for swap in swaps for at, head in swap.changes}
    for t in range(1, len(labels)):
        yield from ((t, swap.move) for swap in swaps if swap.last == t)
        before, after = labels[t - 1], labels[t]
        rest = [int(head) for head in np.flatnonzero(before != after) if (t, int(head)) not in taken]
        for source, target in sorted({(int(before[head]), int(after[head])) for head in rest}):
            moved = tuple(head for head in rest if (before[head], after[head]) == (source, target))
            yield t, Move(_event(t, before, after, source, target, is_start), (source,), (target,), moved)


def _event(t: int, before: np.ndarray, after: np.ndarray, source: int, target: int, is_start: IsStart) -> Event:
    if target not in before:
        if is_start(t - 1, source):
            return "birth"
        return "split" if source in after else "change"
    if source in after:
        return "move"
    return "death" if is_start(t, target) else "merge"


class _Swap(NamedTuple):
    """A swap, its last checkpoint, and the (checkpoint, head) at which its heads change."""

    last: int
    move: Move
    changes: set[tuple[int, int]]


def _swaps(labels: np.ndarray) -> list[_Swap]:
    """Return exchanges between kinds within WITHIN checkpoints, the shortest first."""
    changed = labels[1:] != labels[:-1]
    times = (np.flatnonzero(changed.any(1)) + 1).tolist()
    windows = sorted(
        ((t0, t1) for t0 in times for t1 in times if 0 <= t1 - t0 <= WITHIN), key=lambda window: window[1] - window[0]
    )
    free, swaps = changed.copy(), []
    for t0, t1 in windows:
        part = changed[t0 - 1 : t1]
        heads = np.flatnonzero(part.any(0) & (free[t0 - 1 : t1] == part).all(0) & (labels[t0 - 1] != labels[t1]))
        heads = _exchanged(labels[t0 - 1], labels[t1], heads)
        if len(heads):
            kinds = tuple(np.unique(labels[t0 - 1][heads]).tolist())
            changes = {(t0 + int(i), int(heads[j])) for i, j in np.argwhere(part[:, heads])}
            free[t0 - 1 : t1, heads] = False
            swaps.append(_Swap(t1, Move("swap", kinds, kinds, tuple(heads.tolist())), changes))
    return swaps


def _exchanged(before: np.ndarray, after: np.ndarray, heads: np.ndarray) -> np.ndarray:
    """Return the heads among these that move within groups of kinds each of which gains as many of them as it loses."""
    while len(heads):
        flow = np.bincount(after[heads], minlength=1 + max(before.max(), after.max()))
        flow -= np.bincount(before[heads], minlength=len(flow))
        keep = (flow[before[heads]] == 0) & (flow[after[heads]] == 0)
        if keep.all():
            break
        heads = heads[keep]
    return heads
