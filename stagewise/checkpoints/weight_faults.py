"""Faults that the weights themselves show, from one reading of each checkpoint: only sketches of it are kept."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stagewise import models
from stagewise.checkpoints.comparisons import at_entry, other_steps, unread, unusual
from stagewise.checkpoints.copies import FIRST_UPDATE, near_copies, same_checkpoints, stale
from stagewise.checkpoints.findings import Finding, Kind
from stagewise.checkpoints.jumps import breaks, rate_jumps
from stagewise.checkpoints.misplaced import exchanged
from stagewise.checkpoints.outliers import Deviation, detours, end_growth, ends, flipped, foreign_ends, vanished
from stagewise.checkpoints.sketches import Sketch, sketched
from stagewise.checkpoints.sources import Entry, Source
from stagewise.checkpoints.weight_path import WeightPath, common_path, paths_of

SAME_SCALE = 1.1
"""Weights whose norms change by factors that differ by less were scaled together."""

MANY = 256
"""Entries of a weight whose rounding is looked at."""


class Checkpoints(NamedTuple):
    """Checkpoints of one branch in the order of their steps, and their sketches."""

    entries: list[Entry]
    sketches: list[Mapping[str, Sketch]]

    @property
    def steps(self) -> list[int]:
        """Their steps."""
        return [entry.at.step for entry in self.entries]


def weight_faults(source: Source, entries: Sequence[Entry], known: set[tuple[int, ...]]) -> Iterator[Finding]:
    """Read each checkpoint once, and look for faults in what was read.

    Args:
        source: of the checkpoints.
        entries: those that can be read.
        known: steps of findings that the files' hashes gave already.
    """
    read: list[Entry] = []
    sketches: list[Mapping[str, Sketch]] = []
    recorded: dict[Entry, int] = {}
    aside: dict[Entry, tuple[str, ...]] = {}
    for entry in entries:
        try:
            contents = entry.contents()
            sketch = sketched(models.without_constants(contents.weights))
        except (ValueError, OSError) as reason:
            yield unread(source, entry, reason)
            continue
        read.append(entry)
        sketches.append(sketch)
        recorded |= {} if contents.step is None else {entry: contents.step}
        aside |= {entry: contents.aside} if contents.aside else {}
        del contents
    yield from other_steps(recorded, "its file")
    if aside:
        steps, labels = tuple(entry.at.step for entry in aside), tuple(entry.label for entry in aside)
        yield Finding(Kind.LEFT_ASIDE, steps, labels, reason=", ".join(dict.fromkeys(itertools.chain(*aside.values()))))
    sketches = _without_masks(sketches)
    for entry, one in zip(read, sketches, strict=True):
        if bad := [name for name, sketch in one.items() if not np.isfinite(sketch.norm)]:
            yield at_entry(Kind.NON_FINITE_WEIGHTS, entry, weights=tuple(bad))
    yield from unusual(Kind.OTHER_SHAPES, read, [{name: s.shape for name, s in one.items()} for one in sketches])
    yield from unusual(Kind.OTHER_TYPES, read, _types(sketches))
    for branch in sorted({entry.at.branch for entry in read}):
        of_branch = [k for k, entry in enumerate(read) if entry.at.branch == branch]
        order = sorted(of_branch, key=lambda k: read[k].at.step)
        yield from path_faults(Checkpoints([read[k] for k in order], [sketches[k] for k in order]), known)


def _without_masks(sketches: Sequence[Mapping[str, Sketch]]) -> list[Mapping[str, Sketch]]:
    """Leave out what holds infinities and is the same in every checkpoint: a buffer, as an attention mask is one."""
    infinite = {name for one in sketches for name, sketch in one.items() if np.isinf(sketch.norm)}
    same = {name for name in infinite if len({one[name].bits for one in sketches if name in one}) == 1}
    masks = same if len(sketches) > 1 else set()
    return [{name: sketch for name, sketch in one.items() if name not in masks} for one in sketches]


def _types(sketches: Sequence[Mapping[str, Sketch]]) -> list[dict[str, str]]:
    """Describe data types; where the entries of most large weights were rounded to a coarser one, that too."""
    types = []
    for one in sketches:
        large = [s for s in one.values() if s.size >= MANY and s.zeros < s.size / 2 and s.kind == "torch.float32"]
        (rounding, number), *_ = Counter(sketch.rounding for sketch in large).most_common(1) or [("", 0)]
        suffix = f" rounded to {rounding}" if rounding and 2 * number > len(large) else ""
        types.append({name: s.kind + (suffix if s.kind == "torch.float32" else "") for name, s in one.items()})
    return types


def path_faults(checkpoints: Checkpoints, known: set[tuple[int, ...]]) -> Iterator[Finding]:
    """Yield the faults of one branch's path through the space of weights."""
    paths = paths_of(checkpoints.sketches)
    # Where most checkpoints are copies of one, the usual stride is zero: without them the others have a path.
    again = [row for group in same_checkpoints(checkpoints.sketches, paths) for row in group[1:]]
    common = common_path(paths) or common_path([path.without(again) for path in paths])
    if common is None:
        yield from (one for one in _same(checkpoints, paths) if one.steps not in known)
        return
    pairs = [(int(common.rows[i]), int(common.rows[j])) for i, j in exchanged(common)]
    for first, second in pairs:
        entries = checkpoints.entries[first], checkpoints.entries[second]
        steps, labels = tuple(entry.at.step for entry in entries), tuple(entry.label for entry in entries)
        yield Finding(Kind.EXCHANGED, steps, labels, entries[0].at.branch)
    if pairs:  # what else is wrong is seen with these put right
        checkpoints = _exchanged(checkpoints, pairs)
        paths = paths_of(checkpoints.sketches)
        common = common_path(paths) or common
    copies = list(_copies(checkpoints, paths, common))
    yield from (one for one in copies if one.steps not in known)
    paths = [_without_copies(path, checkpoints.steps, copies) for path in paths]
    common = common_path(paths) or common
    yield from _deviations(checkpoints, paths, common)
    yield from _jumps(checkpoints, paths, common)


def _without_copies(path: WeightPath, steps: Sequence[int], copies: Sequence[Finding]) -> WeightPath:
    """Leave out the checkpoints that share this weight with another one."""
    copied = {step for one in copies for step in one.steps if path.name in one.weights or not one.weights}
    return path.without([row for row, step in enumerate(steps) if step in copied])


def _exchanged(checkpoints: Checkpoints, pairs: Sequence[tuple[int, int]]) -> Checkpoints:
    order = list(range(len(checkpoints.entries)))
    for first, second in pairs:
        order[first], order[second] = order[second], order[first]
    # A step keeps its place, and its weights are those that lie under the other name.
    entries = [
        dataclasses.replace(checkpoints.entries[k], at=checkpoints.entries[place].at) for place, k in enumerate(order)
    ]
    return Checkpoints(entries, [checkpoints.sketches[k] for k in order])


def _same(checkpoints: Checkpoints, paths: Sequence[WeightPath]) -> Iterator[Finding]:
    for group in same_checkpoints(checkpoints.sketches, paths):
        at, entries = tuple(checkpoints.steps[k] for k in group), [checkpoints.entries[k] for k in group]
        if len(set(at)) > 1 and at != FIRST_UPDATE:
            labels = tuple(entry.label for entry in entries)
            yield Finding(Kind.IDENTICAL_WEIGHTS, at, labels, entries[0].at.branch, reason="weights")


def _copies(checkpoints: Checkpoints, paths: Sequence[WeightPath], common: WeightPath) -> Iterator[Finding]:
    yield from _same(checkpoints, paths)
    same = same_checkpoints(checkpoints.sketches, paths)
    whole = {frozenset(pair) for group in same for pair in ((i, j) for i in group for j in group if i < j)}
    for copy in near_copies(common):
        if frozenset((copy.checkpoint, copy.of)) not in whole:
            yield _copied(Kind.NEARLY_IDENTICAL_WEIGHTS, copy.checkpoint, copy.of, checkpoints, times=copy.apart)
    for copy in stale(checkpoints.sketches, paths, common, checkpoints.steps):
        if frozenset((copy.checkpoint, copy.of)) not in whole:
            yield _copied(Kind.WEIGHTS_OF_ANOTHER_STEP, copy.checkpoint, copy.of, checkpoints, weights=copy.names)


def _copied(kind: Kind, row: int, of: int, checkpoints: Checkpoints, **details: object) -> Finding:
    return at_entry(kind, checkpoints.entries[row], other_step=checkpoints.steps[of], **details)


def _deviations(checkpoints: Checkpoints, paths: Sequence[WeightPath], common: WeightPath) -> Iterator[Finding]:
    found: dict[int, list[Deviation]] = {}
    growth = end_growth(paths)
    for path in paths:
        by_row = {one.checkpoint: one for one in (*ends(path, growth), *vanished(path), *flipped(path), *detours(path))}
        for row, deviation in by_row.items():
            found.setdefault(row, []).append(deviation)
    whole = {one.checkpoint: one for one in (*detours(common), *foreign_ends(common, paths))}
    for row in sorted(found.keys() | whole.keys()):
        deviations = found.get(row) or [whole[row]]
        scales = [one.scale for one in deviations]
        yield at_entry(
            Kind.OUTLYING_WEIGHTS,
            checkpoints.entries[row],
            weights=tuple(one.name for one in deviations if one.name),
            times=max((one.times for one in deviations if np.isfinite(one.times)), default=np.inf),
            scale=float(np.median(scales)) if max(scales) < SAME_SCALE * min(scales) else None,
        )


def _jumps(checkpoints: Checkpoints, paths: Sequence[WeightPath], common: WeightPath) -> Iterator[Finding]:
    entries, steps = checkpoints.entries, checkpoints.steps
    for jump in breaks(common, paths, steps):
        yield at_entry(Kind.OTHER_RUN, entries[jump.after], other_step=steps[jump.before], times=jump.times)
    for jump in rate_jumps(common, steps):
        yield at_entry(Kind.RATE_JUMP, entries[jump.before], other_step=steps[jump.after], times=jump.times)
