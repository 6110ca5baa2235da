"""Faults that the weights themselves show, from one reading of each checkpoint: only sketches of it are kept."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stagewise import models
from stagewise.checkpoints._comparisons import at_entry, other_steps, read_each, unusual
from stagewise.checkpoints._copies import FIRST_UPDATE, near_copies, same_checkpoints, stale
from stagewise.checkpoints._misplaced import exchanged
from stagewise.checkpoints._outliers import (
    breaks,
    detours,
    end_growth,
    ends,
    flipped,
    foreign_ends,
    rate_jumps,
    vanished,
)
from stagewise.checkpoints._sketches import Sketch, sketched
from stagewise.checkpoints._weight_path import MANY, Deviation, WeightPath, common_path, paths_of
from stagewise.checkpoints.findings import Finding, Kind
from stagewise.checkpoints.sources import Entry, Source

SAME_SCALE = 1.1
"""Weights whose norms change by factors that differ by less were scaled together."""


class _Read(NamedTuple):
    """The result of reading a checkpoint once."""

    sketch: Mapping[str, Sketch]
    step: int | None
    aside: tuple[str, ...]


def weight_faults(source: Source, entries: Sequence[Entry], known: set[tuple[int, ...]]) -> Iterator[Finding]:
    """Read each checkpoint once, and look for faults in what was read."""
    contents, faults = read_each(source, entries, _read)
    yield from faults
    recorded = {entry: one.step for entry, one in contents.items() if one.step is not None}
    yield from other_steps(recorded, "its file")
    if aside := {entry: one.aside for entry, one in contents.items() if one.aside}:
        words = dict.fromkeys(itertools.chain(*aside.values()))
        yield at_entry(Kind.LEFT_ASIDE, *aside, reason=", ".join(words))
    sketches = _without_masks({entry: one.sketch for entry, one in contents.items()})
    for entry, one in sketches.items():
        if bad := [name for name, sketch in one.items() if not np.isfinite(sketch.norm)]:
            yield at_entry(Kind.NON_FINITE_WEIGHTS, entry, weights=tuple(bad))
    shapes = {entry: {name: sketch.shape for name, sketch in one.items()} for entry, one in sketches.items()}
    yield from unusual(Kind.OTHER_SHAPES, shapes)
    yield from unusual(Kind.OTHER_TYPES, {entry: _types(one) for entry, one in sketches.items()})
    for branch in sorted({entry.at.branch for entry in sketches}):
        order = sorted((one for one in sketches if one.at.branch == branch), key=lambda entry: entry.at.step)
        yield from _path_faults(order, [sketches[entry] for entry in order], known)


def _read(entry: Entry) -> _Read:
    contents = entry.part() if entry.ranged() else entry.read()
    return _Read(sketched(models.without_constants(contents.weights)), contents.step, contents.aside)


def _without_masks(sketches: Mapping[Entry, Mapping[str, Sketch]]) -> dict[Entry, Mapping[str, Sketch]]:
    """Leave out what holds infinities and is the same in every checkpoint: a buffer, as an attention mask is one."""
    each = sketches.values()
    infinite = {name for one in each for name, sketch in one.items() if np.isinf(sketch.norm)}
    same = {name for name in infinite if len({one[name].bits for one in each if name in one}) == 1}
    masks = same if len(sketches) > 1 else set()
    return {
        entry: {name: sketch for name, sketch in one.items() if name not in masks} for entry, one in sketches.items()
    }


def _types(sketches: Mapping[str, Sketch]) -> dict[str, str]:
    """Describe data types; where the entries of most large weights were rounded to a coarser one, that too."""
    each = sketches.values()
    large = [s for s in each if s.size >= MANY and s.zeros < s.size / 2 and s.kind == "torch.float32"]
    (rounding, number), *_ = Counter(sketch.rounding for sketch in large).most_common(1) or [("", 0)]
    suffix = f" rounded to {rounding}" if rounding and 2 * number > len(large) else ""
    return {name: s.kind + (suffix if s.kind == "torch.float32" else "") for name, s in sketches.items()}


def _path_faults(
    entries: Sequence[Entry], sketches: Sequence[Mapping[str, Sketch]], known: set[tuple[int, ...]]
) -> Iterator[Finding]:
    """Yield the faults of one branch's path through the space of weights, checkpoints in the order of their steps."""
    paths = paths_of(sketches)
    # Where most checkpoints are copies of one, the usual stride is zero: without them the others have a path.
    groups = same_checkpoints(sketches, paths)
    again = [row for group in groups for row in group[1:]]
    common = common_path(paths) or common_path([path.without(again) for path in paths])
    if common is None:
        yield from (one for one in _same(entries, groups) if one.steps not in known)
        return
    pairs = [(int(common.rows[i]), int(common.rows[j])) for i, j in exchanged(common)]
    order = [*range(len(entries))]
    for first, second in pairs:
        yield at_entry(Kind.EXCHANGED, entries[first], entries[second])
        order[first], order[second] = order[second], order[first]
    if pairs:  # what else is wrong is seen with these put right
        # A step keeps its place, and its weights are those that lie under the other name.
        entries = [dataclasses.replace(entries[k], at=entries[place].at) for place, k in enumerate(order)]
        sketches = [sketches[k] for k in order]
        paths = paths_of(sketches)
        common = common_path(paths) or common
    copies = list(_copies(entries, sketches, paths, common))
    yield from (one for one in copies if one.steps not in known)
    steps = [entry.at.step for entry in entries]
    paths = [_without_copies(path, steps, copies) for path in paths]
    common = common_path(paths) or common
    yield from _deviations(entries, paths, common)
    for kind, jumps in ((Kind.OTHER_RUN, breaks(common, paths, steps)), (Kind.RATE_JUMP, rate_jumps(common, steps))):
        yield from (_finding(kind, jump, entries) for jump in jumps)


def _without_copies(path: WeightPath, steps: Sequence[int], copies: Sequence[Finding]) -> WeightPath:
    """Leave out the checkpoints that share this weight with another one."""
    copied = {step for one in copies for step in one.steps if path.name in one.weights or not one.weights}
    return path.without([row for row, step in enumerate(steps) if step in copied])


def _same(entries: Sequence[Entry], groups: Sequence[Sequence[int]]) -> Iterator[Finding]:
    for same in ([entries[k] for k in group] for group in groups):
        if len(at := {entry.at.step for entry in same}) > 1 and at != {*FIRST_UPDATE}:
            yield at_entry(Kind.IDENTICAL_WEIGHTS, *same, reason="weights")


def _copies(
    entries: Sequence[Entry], sketches: Sequence[Mapping[str, Sketch]], paths: Sequence[WeightPath], common: WeightPath
) -> Iterator[Finding]:
    same = same_checkpoints(sketches, paths)
    yield from _same(entries, same)
    whole = {frozenset(pair) for group in same for pair in itertools.combinations(group, 2)}
    near, parts = near_copies(common), stale(sketches, paths, common, [entry.at.step for entry in entries])
    for kind, copies in ((Kind.NEARLY_IDENTICAL_WEIGHTS, near), (Kind.WEIGHTS_OF_ANOTHER_STEP, parts)):
        yield from (
            _finding(kind, one, entries) for one in copies if frozenset((one.checkpoint, one.other)) not in whole
        )


def _finding(kind: Kind, one: Deviation, entries: Sequence[Entry]) -> Finding:
    other = None if one.other is None else entries[one.other].at.step
    details = {"weights": one.weights, "times": one.times, "scale": one.scale}
    return at_entry(kind, entries[one.checkpoint], other_step=other, **details)


def _deviations(entries: Sequence[Entry], paths: Sequence[WeightPath], common: WeightPath) -> Iterator[Finding]:
    found: dict[int, list[Deviation]] = {}
    growth = end_growth(paths)
    for path in paths:
        by_row = {one.checkpoint: one for one in (*ends(path, growth), *vanished(path), *flipped(path), *detours(path))}
        for row, deviation in by_row.items():
            found.setdefault(row, []).append(deviation)
    whole = {one.checkpoint: one for one in (*detours(common), *foreign_ends(common, paths))}
    for row in sorted(found.keys() | whole.keys()):
        deviations = found.get(row) or [whole[row]]
        scales = [one.scale for one in deviations if one.scale is not None]
        together = Deviation(
            row,
            weights=tuple(itertools.chain(*(one.weights for one in deviations))),
            times=max(
                (one.times for one in deviations if one.times is not None and np.isfinite(one.times)), default=np.inf
            ),
            scale=float(np.median(scales)) if max(scales) < SAME_SCALE * min(scales) else None,
        )
        yield _finding(Kind.OUTLYING_WEIGHTS, together, entries)
