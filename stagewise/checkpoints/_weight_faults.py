"""Faults that the weights show, from one reading of each checkpoint: sketches are kept."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from stagewise import models
from stagewise.checkpoints import _path_rules as rules
from stagewise.checkpoints._comparisons import at_entry, other_steps, read_each, unusual
from stagewise.checkpoints._sketches import Sketches, WeightPath, common_path, paths_of, sketched
from stagewise.checkpoints.findings import Finding, Kind
from stagewise.checkpoints.sources import Entry, Source


class _Read(NamedTuple):
    sketch: Sketches
    step: int | None
    aside: tuple[str, ...]


def weight_faults(source: Source, entries: Sequence[Entry], known: set[tuple[int, ...]]) -> Iterator[Finding]:
    """Read each checkpoint once, and look for faults in what was read."""
    contents, faults = read_each(source, entries, _read)
    yield from faults
    recorded = {entry: one.step for entry, one in contents.items() if one.step is not None}
    yield from other_steps(recorded, "its file")
    for words in dict.fromkeys(one.aside for one in contents.values() if one.aside):
        alike = [entry for entry, one in contents.items() if one.aside == words]
        yield at_entry(Kind.LEFT_ASIDE, *alike, reason=", ".join(words))
    sketches = _without_masks({entry: one.sketch for entry, one in contents.items()})
    for entry, one in sketches.items():
        if bad := [name for name, sketch in one.items() if not np.isfinite(sketch.norm)]:
            yield at_entry(Kind.NON_FINITE_WEIGHTS, entry, weights=tuple(bad))
    for kind, trait in ((Kind.OTHER_SHAPES, "shape"), (Kind.OTHER_TYPES, "kind")):
        traits = {entry: {name: getattr(of, trait) for name, of in one.items()} for entry, one in sketches.items()}
        yield from unusual(kind, traits)
    for branch in sorted({entry.at.branch for entry in sketches}):
        order = sorted((one for one in sketches if one.at.branch == branch), key=lambda entry: entry.at.step)
        yield from _path_faults(order, [sketches[entry] for entry in order], known)


def _read(entry: Entry) -> _Read:
    contents = entry.read()
    return _Read(sketched(models.without_constants(contents.weights)), contents.step, contents.aside)


def _without_masks(sketches: Mapping[Entry, Sketches]) -> dict[Entry, Sketches]:
    """Leave out what holds infinities and is the same in every checkpoint: a buffer, as an attention mask is one."""
    each = sketches.values()
    infinite = {name for one in each for name, sketch in one.items() if np.isinf(sketch.norm)}
    same = {name for name in infinite if len({one[name].bits for one in each if name in one}) == 1}
    masks = same if len(sketches) > 1 else set()
    return {entry: {name: of for name, of in one.items() if name not in masks} for entry, one in sketches.items()}


def _path_faults(
    entries: Sequence[Entry], sketches: Sequence[Sketches], known: set[tuple[int, ...]]
) -> Iterator[Finding]:
    """Yield the faults of one branch's path through the space of weights, checkpoints in the order of their steps."""
    paths, steps = paths_of(sketches), [entry.at.step for entry in entries]
    copies = [*_same(entries, rules.same_checkpoints(sketches, paths)), *_parts(entries, sketches, paths)]
    yield from (one for one in copies if one.steps not in known)
    for number, path in enumerate(paths):  # less the checkpoints that share its weight with another one
        copied = {step for one in copies for step in one.steps if path.name in one.weights or not one.weights}
        paths[number] = path.without([row for row, step in enumerate(steps) if step in copied])
    if (common := common_path(paths)) is not None:
        yield from _deviations(entries, paths, common)


def _same(entries: Sequence[Entry], groups: Sequence[Sequence[int]]) -> Iterator[Finding]:
    for same in ([entries[k] for k in group] for group in groups):
        if len(at := {entry.at.step for entry in same}) > 1 and at != rules.FIRST_UPDATE:
            yield at_entry(Kind.IDENTICAL_WEIGHTS, *same, reason="weights")


def _parts(entries: Sequence[Entry], sketches: Sequence[Sketches], paths: Sequence[WeightPath]) -> Iterator[Finding]:
    """Yield the checkpoints of which a part is another one's, not all."""
    whole = {pair for group in rules.same_checkpoints(sketches, paths) for pair in itertools.permutations(group, 2)}
    for one in rules.stale(sketches, paths, [entry.at.step for entry in entries]):
        if (one.checkpoint, one.other) not in whole:
            yield _finding(Kind.WEIGHTS_OF_ANOTHER_STEP, one, entries)


def _finding(kind: Kind, one: rules.Deviation, entries: Sequence[Entry]) -> Finding:
    other = None if one.other is None else entries[one.other].at.step
    return at_entry(kind, entries[one.checkpoint], other_step=other, weights=one.weights, times=one.times)


def _deviations(entries: Sequence[Entry], paths: Sequence[WeightPath], common: WeightPath) -> Iterator[Finding]:
    """Yield the checkpoints off the path, with the weights that are, and those from which another run begins."""
    growth, found = rules.end_growth(paths), dict[int, list[rules.Deviation]]()
    for path in paths:
        for one in {
            each.checkpoint: each for each in (*rules.ends(path, growth), *rules.detours(path), *rules.zeroed(path))
        }.values():
            found.setdefault(one.checkpoint, []).append(one)
    for jump in rules.breaks(common, paths, [entry.at.step for entry in entries]):
        at_end = jump.checkpoint in (common.rows[0], common.rows[-1])
        if not at_end:
            yield _finding(Kind.OTHER_RUN, jump, entries)
        elif jump.checkpoint not in found:
            found[jump.checkpoint] = [jump._replace(other=None)]
    for whole in rules.detours(common):
        found.setdefault(whole.checkpoint, [whole])
    for row, deviations in sorted(found.items()):
        weights = tuple(itertools.chain(*(one.weights for one in deviations)))
        together = rules.Deviation(row, weights, max(one.times or 0.0 for one in deviations))
        yield _finding(Kind.OUTLYING_WEIGHTS, together, entries)
