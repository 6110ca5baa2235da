"""Faults that the weights, or what models compute, show, from one reading of each checkpoint: sketches are kept."""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints._comparisons import at_entry, other_steps, read_each, unusual
from stagewise.checkpoints._copies import FIRST_UPDATE, exchanged, near_copies, same_checkpoints, stale
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
from stagewise.checkpoints._sketches import ENOUGH, MANY, Deviation, Sketch, WeightPath, common_path, paths_of, sketched
from stagewise.checkpoints._weight_files import not_finite
from stagewise.checkpoints.findings import Finding, Kind
from stagewise.checkpoints.sources import Entry, Source
from stagewise.loss import mean_scored, prediction_loss
from stagewise.models import check_device
from stagewise.task import Batch

SAME_SCALE = 1.1
"""Weights whose norms change by factors that differ by less were scaled together."""

PREDICTIONS = "predictions"

WORSE = 0.2
"""Part of the whole range of losses by which a loss that nothing explains exceeds those about it."""

USUAL_RISE = 3.0
"""And so many times the largest rise between any two other neighbours."""

Elsewhere = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""A function that calls another one for each item in other processes, and returns the values as `map` does."""


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
    for words in dict.fromkeys(one.aside for one in contents.values() if one.aside):
        alike = [entry for entry, one in contents.items() if one.aside == words]
        yield at_entry(Kind.LEFT_ASIDE, *alike, reason=", ".join(words))
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


class Computed(NamedTuple):
    """A checkpoint's output on the batch: the mean loss in nats, and a sketch of its predictions."""

    entry: Entry
    loss: float
    sketch: Sketch


def function_faults(
    source: Source,
    entries: Sequence[Entry],
    architecture: Architecture,
    batch: Batch,
    device: str = "cpu",
    elsewhere: Elsewhere | None = None,
) -> Iterator[Finding]:
    """Run each checkpoint once, and look for those whose function lies off the path of the others'.

    Predictions are compared as the roots of their probabilities, whose distances are Hellinger's: tokens that are
    unlikely everywhere count little. Checkpoints that do not fit the model are left out.
    """
    check_device(device)
    batch.check_ids(architecture.config["d_vocab"], f"the series {source.name}", architecture.n_outputs)
    model, batch = models.unloaded(architecture, device=device), batch.to(device)
    if elsewhere is None:
        computed = [one for entry in entries if (one := compute(model, entry, batch)) is not None]
    else:
        there = elsewhere(partial(_numbered, architecture, entries, batch, device), range(len(entries)))
        computed = [Computed(entry, *one) for entry, one in zip(entries, there, strict=True) if one is not None]
    if entries and not computed:
        models.load(model, entries[0].load())  # says why none of them fits
    for branch in sorted({one.entry.at.branch for one in computed}):
        of_branch = [one for one in computed if one.entry.at.branch == branch]
        yield from off_the_path(sorted(of_branch, key=lambda one: one.entry.at.step))


def compute(model: models.Model, entry: Entry, batch: Batch) -> Computed | None:
    """Run a checkpoint on the batch; None where its weights are not finite, or do not fit the model."""
    try:
        state = entry.load()
        if not_finite(state):
            return None
        models.load(model, state)
    except (ValueError, OSError):  # findings of their own
        return None
    predictions, _ = models.clean_pass(model, batch.tokens, (), regression=batch.is_regression)
    loss = float(mean_scored(prediction_loss(predictions, batch.targets), batch.scored).mean())
    scored: Tensor = predictions[batch.scored].cpu()
    with torch.inference_mode():
        numbers = scored.clone() if batch.is_regression else (scored / 2).exp()
    return Computed(entry, loss, sketched({PREDICTIONS: numbers})[PREDICTIONS])


def _numbered(
    architecture: Architecture, entries: Sequence[Entry], batch: Batch, device: str, number: int
) -> tuple[float, Sketch] | None:
    """Run the checkpoint of a number, without its entry, which need not be sent back."""
    computed = compute(models.unloaded(architecture, device=device), entries[number], batch)
    return None if computed is None else (computed.loss, computed.sketch)


def off_the_path(computed: Sequence[Computed]) -> Iterator[Finding]:
    """Yield the checkpoints of one branch, in the order of their steps, whose function lies off the others' path."""
    paths = paths_of([{PREDICTIONS: one.sketch} for one in computed])
    times = {one.checkpoint: one.times for path in paths for one in detours(path)}
    losses = np.array([one.loss for one in computed])
    for row in sorted(times.keys() | _worse(losses, [row for row in range(len(losses)) if row not in times])):
        beside = [f"{losses[k]:.3g}" for k in (row - 1, row + 1) if 0 <= k < len(losses)]
        reason = f"loss {losses[row]:.3g}, beside it {' and '.join(beside)}"
        yield at_entry(Kind.OUTLYING_FUNCTION, computed[row].entry, times=times.get(row), reason=reason)


def _worse(losses: np.ndarray, rows: Sequence[int]) -> set[int]:
    """Return the rows, of these, whose loss exceeds its neighbours' unexpectedly."""
    usual, found = losses[list(rows)], set[int]()
    if len(rows) < ENOUGH or not np.isfinite(usual).all():
        return found
    for i in range(1, len(rows)):
        others = np.delete(usual, i)
        if excess(usual, i) > max(WORSE * np.ptp(others), USUAL_RISE * np.diff(others).max()):
            found.add(rows[i])
    return found


def excess(losses: Float[np.ndarray, " checkpoint"], row: int) -> float:
    """Return by how much a loss exceeds both of its neighbours', of the last one its only one's, nats."""
    return float(min(losses[row] - losses[k] for k in (row - 1, row + 1) if 0 <= k < len(losses)))
