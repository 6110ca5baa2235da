"""The lineage of attention: kinds of pattern over training, which heads are of which, and how kinds come and go."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from stagewise.criteria import DEFAULT, StageCriteria
from stagewise.findings._frames import Columns, InWords, digest, from_plain, names_of, plain, typed
from stagewise.findings._kinds import OUTPUTS, PATTERNS, Readings, kinds_of, near, readings_of
from stagewise.table import head_label, rows_named

Event = Literal["birth", "split", "change", "merge", "death", "swap", "move"]

WITHIN = 10
"""Checkpoints within which two moves in opposite directions are one swap: patterns that cross are alike half-way."""

PASSING = 5
"""Checkpoints: what lasts for fewer, all in all, and not at the end, is no kind but heads on their way to one."""

IsStart = Callable[[int, int], bool]
"""Whether at a checkpoint a kind still has the pattern that all heads started with."""

MEMBERS: Columns = {"step": "int64", "layer": "int64", "head": "int64", "kind": "int64"}

EVENTS: Columns = {
    **{"event": "str", "before": "str", "after": "str", "heads": "str"},
    **{"last_step_before": "int64", "first_step_after": "int64"},
}

NAMES: Columns = {"kind": "int64", "name": "str", "first_step": "int64", "last_step": "int64", "heads": "int64"}

NO_PATTERNS = (
    "the table has no patterns of heads: measure the attention of heads by feature, by offset or to relations, which "
    "the default probes do"
)

FRAMES = "members", "events", "kinds"


class _Move(NamedTuple):
    """Heads that go from the kinds `before` to the kinds `after`; of a swap both are all kinds that take part."""

    event: Event
    before: tuple[int, ...]
    after: tuple[int, ...]
    heads: tuple[int, ...]


def _without_short(labels: np.ndarray, dwell: int) -> np.ndarray:
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


def _without_passing(labels: np.ndarray) -> np.ndarray:
    """Return labels [step, head] without kinds that fewer than PASSING checkpoints see: heads go on to the next."""
    result = labels.copy()
    for kind in np.unique(labels[:-1]):
        seen = (labels == kind).any(1)
        if seen.sum() < PASSING and not seen[-1] and not seen[0]:
            for t in np.flatnonzero(seen)[::-1]:
                of = result[t] == kind
                result[t, of] = result[t + 1, of]
    return result


def _moves_of(labels: np.ndarray, is_start: IsStart) -> Iterator[tuple[int, _Move]]:
    """Yield every event with the checkpoint that is the first after it."""
    swaps = _swaps(labels)
    taken = {(at, head) for swap in swaps for at, head in swap.changes}
    for t in range(1, len(labels)):
        yield from ((t, swap.move) for swap in swaps if swap.last == t)
        before, after = labels[t - 1], labels[t]
        rest = [int(head) for head in np.flatnonzero(before != after) if (t, int(head)) not in taken]
        for source, target in sorted({(int(before[head]), int(after[head])) for head in rest}):
            moved = tuple(head for head in rest if (before[head], after[head]) == (source, target))
            yield t, _Move(_event(t, before, after, source, target, is_start), (source,), (target,), moved)


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
    move: _Move
    changes: set[tuple[int, int]]


def _swaps(labels: np.ndarray) -> list[_Swap]:
    """Return exchanges between kinds within WITHIN checkpoints, the shortest first."""
    changed = labels[1:] != labels[:-1]
    times = (np.flatnonzero(changed.any(1)) + 1).tolist()
    windows = [(t0, t1) for t0 in times for t1 in times if 0 <= t1 - t0 <= WITHIN]
    free, swaps = changed.copy(), []
    for t0, t1 in sorted(windows, key=lambda window: window[1] - window[0]):
        part = changed[t0 - 1 : t1]
        heads = np.flatnonzero(part.any(0) & (free[t0 - 1 : t1] == part).all(0) & (labels[t0 - 1] != labels[t1]))
        heads = _exchanged(labels[t0 - 1], labels[t1], heads)
        if len(heads):
            kinds = tuple(np.unique(labels[t0 - 1][heads]).tolist())
            changes = {(t0 + int(i), int(heads[j])) for i, j in np.argwhere(part[:, heads])}
            free[t0 - 1 : t1, heads] = False
            swaps.append(_Swap(t1, _Move("swap", kinds, kinds, tuple(heads.tolist())), changes))
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


@dataclasses.dataclass(frozen=True, eq=False)
class Lineage(InWords):
    """The kinds of attention pattern in a run, and what became of them.

    Args:
        run: name of the run.
        members: a row a checkpoint and head: its `kind`, from 1.
        events: a row an event, between two checkpoints (`last_step_before`, `first_step_after`): the `event` (birth,
            split, merge, death, swap, change or move), the numbers of the kinds `before` and `after` and the names of
            the `heads` that moved, separated by spaces.
        kinds: a row a kind: its `name` by what it attends to most (at the end, if it is still there), from and to
            which step there is one, and the largest number of `heads` at one checkpoint.
        digest: of the rows that they were found in.
    """

    run: str
    members: pd.DataFrame
    events: pd.DataFrame
    kinds: pd.DataFrame
    digest: str = ""

    @property
    def written(self) -> dict[str, Any]:
        """Its fields as plain data, with the types of columns, for JSON."""
        return {"run": self.run, "digest": self.digest, **{name: plain(getattr(self, name)) for name in FRAMES}}

    @classmethod
    def of(cls, written: Mapping[str, Any]) -> "Lineage":
        """Return the lineage that `written` holds."""
        frames = {name: from_plain(written[name]) for name in FRAMES}
        return cls(run=written["run"], digest=written["digest"], **frames)


def find_lineage(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> Lineage:
    """Follow the kinds of attention pattern of one run from checkpoint to checkpoint.

    A kind is a group of heads, one or more, whose patterns (by feature, else attention by offset or by relation) are
    alike; `kinds.kinds_of` describes how they are grouped and followed. A state of fewer than two checkpoints (`dwell`)
    is passed over, and so are kinds of fewer than five, on the way to others. Between two checkpoints heads move from
    kind to kind:

    - birth: heads leave the pattern that most started with, a diffuse one, for one that no head had;
    - split: heads leave another kind, which stays, for one that no head had;
    - change: all heads of a kind turn to a pattern that no head had;
    - merge: all heads of a kind join another one; death: they return to that diffuse pattern;
    - swap: heads change places between kinds, none of which grows or shrinks;
    - move: heads join another kind, and others stay.

    Args:
        table: of one run, from `measure`.
        criteria: `dwell`, `named` and `most` count.

    Raises:
        ValueError: the table has several runs, or no patterns of heads.
    """
    if (runs := table["run"].nunique()) != 1:
        raise ValueError(f"find_lineage takes one run at a time, the table has {runs}: select one by its `run` column")
    table = rows_named(table, names_of(table, *PATTERNS, *OUTPUTS))
    readings = readings_of(table)
    if readings is None:
        raise ValueError(NO_PATTERNS)
    kinds = kinds_of(readings)
    labels = _without_passing(_without_short(kinds.labels, criteria.dwell))
    names = _names(readings, labels, criteria)
    members = pd.DataFrame(
        {
            "step": np.repeat(readings.steps, len(readings.heads)),
            **{name: [head[i] for head in readings.heads] * len(labels) for i, name in enumerate(("layer", "head"))},
            "kind": labels.ravel() + 1,
        }
    ).astype(MEMBERS)
    events = typed(_events(readings, labels, criteria), EVENTS)
    return Lineage(str(table["run"].iloc[0]), members, events, names, digest(table))


def _names(readings: Readings, labels: np.ndarray, criteria: StageCriteria) -> pd.DataFrame:
    rows = []
    for kind in np.unique(labels):
        of = labels == kind
        (steps,) = np.nonzero(of.any(1))
        # A kind that ends by joining another one has the other's pattern by then: its life says more.
        life = steps[-1:] if steps[-1] == len(labels) - 1 else steps
        masses = np.median([(readings.patterns[t][of[t]] ** 2).mean(0) for t in life], axis=0)
        # A relation says more than an offset that it holds: the last of equals.
        top = len(masses) - 1 - int(masses[::-1].argmax())
        name = readings.features[top] if masses[top] >= criteria.named else "diffuse"
        first, last = (int(readings.steps[t]) for t in steps[[0, -1]])
        rows.append({"kind": kind + 1, "name": name, "first_step": first, "last_step": last, "heads": of.sum(1).max()})
    return typed(rows, NAMES)


def _events(readings: Readings, labels: np.ndarray, criteria: StageCriteria) -> Iterator[dict[str, Any]]:
    start = readings.patterns[0][labels[0] == np.bincount(labels[0]).argmax()].mean(0)
    diffuse = float((start**2).max()) < criteria.most

    def is_start(t: int, kind: int) -> bool:
        of = labels[t] == kind
        return diffuse and bool(of.any()) and near(readings.patterns[t][of].mean(0), start, readings.extra)

    for t, move in _moves_of(labels, is_start):
        heads = [head_label(*readings.heads[head]) for head in move.heads]
        yield {
            "event": move.event,
            "before": _spaced(move.before),
            "after": _spaced(move.after),
            "heads": " ".join(heads),
            "last_step_before": int(readings.steps[t - 1]),
            "first_step_after": int(readings.steps[t]),
        }


def _spaced(kinds: tuple[int, ...]) -> str:
    return " ".join(str(kind + 1) for kind in kinds)
