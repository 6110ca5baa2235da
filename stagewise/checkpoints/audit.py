"""Faults of a series before any measurement: missing, repeated, damaged and outlying checkpoints."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch

from stagewise import models
from stagewise.checkpoints.findings import Audit, Finding, Kind
from stagewise.checkpoints.norm_jumps import norm_jumps
from stagewise.checkpoints.sources import Entry, Source
from stagewise.checkpoints.step_gaps import missing_steps
from stagewise.checkpoints.weight_files import State

VOLATILE = {"_name_or_path", "transformers_version", "torch_dtype", "dtype", "use_cache"}
"""Fields of a config that may change without changing the model."""


def audit(source: Source, *, weights: bool = True) -> Audit:
    """Look for faults in the checkpoints of a source.

    Args:
        source: from `series.find`, which is what `open_series` opens.
        weights: read the weights too, one checkpoint at a time. Without, the hashes that a hub knows find identical
            weights, and nothing is downloaded but configs.

    Raises:
        OSError: the hub does not answer.
    """
    entries = source.entries
    unread = list(_of_hashes(entries))
    findings = [*_of_steps(source), *_of_records(entries), *unread, *_of_configs(entries)]
    if weights:
        lost = {one.checkpoints for one in unread if one.kind in (Kind.NO_WEIGHTS, Kind.DAMAGED)}
        findings += _of_weights([entry for entry in entries if (entry.label,) not in lost])
    return Audit(source.name, len(entries), weights, tuple(findings), source.ignored)


def _at(kind: Kind, entry: Entry, **details: Any) -> Finding:
    """Return a finding at one checkpoint."""
    return Finding(kind, (entry.at.step,), (entry.label,), **details)


def _of_steps(source: Source) -> Iterator[Finding]:
    for branch in sorted({entry.at.branch for entry in source.entries}):
        entries = [entry for entry in source.entries if entry.at.branch == branch]
        for before, after in pairwise(entries) if source.ordered else ():
            if after.at.step < before.at.step:
                yield _at(Kind.OUT_OF_ORDER, after, other_step=before.at.step)
        by_step: dict[int, list[str]] = {}
        for entry in entries:
            by_step.setdefault(entry.at.step, []).append(entry.label)
        for step, labels in sorted(by_step.items()):
            if len(labels) > 1:
                yield Finding(Kind.REPEATED_STEP, (step,), tuple(labels), branch)
        steps = sorted(by_step)
        for step in sorted(set(source.promised) - set(steps)) if source.promised else missing_steps(steps):
            yield Finding(Kind.MISSING_STEP, (step,), branch=branch)


def _of_records(entries: Sequence[Entry]) -> Iterator[Finding]:
    for entry in entries:
        if entry.recorded is not None and entry.recorded != entry.at.step:
            yield _at(Kind.OTHER_STEP_RECORDED, entry, other_step=entry.recorded)


def _of_hashes(entries: Sequence[Entry]) -> Iterator[Finding]:
    by_hash: dict[str, list[Entry]] = {}
    for entry in entries:
        try:
            digest = entry.digest()
        except FileNotFoundError as reason:
            yield _at(Kind.NO_WEIGHTS, entry, reason=str(reason))
            continue
        except ValueError as reason:
            yield _at(Kind.DAMAGED, entry, reason=str(reason))
            continue
        if digest is None:
            yield _at(Kind.NO_WEIGHTS, entry)
        else:
            by_hash.setdefault(digest, []).append(entry)
    for same in by_hash.values():
        if len({(entry.at.branch, entry.at.step) for entry in same}) > 1:
            steps, labels = zip(*((entry.at.step, entry.label) for entry in same), strict=True)
            yield Finding(Kind.IDENTICAL_WEIGHTS, steps, labels)


def _of_configs(entries: Sequence[Entry]) -> Iterator[Finding]:
    read: list[Entry] = []
    without: list[Entry] = []
    configs: list[Mapping[str, Any]] = []
    for entry in entries:
        try:
            config = entry.config()
        except ValueError as reason:
            yield _at(Kind.DAMAGED, entry, reason=str(reason))
            continue
        (without if config is None else read).append(entry)
        if config is not None:
            configs.append({key: value for key, value in config.items() if key not in VOLATILE})
    for entry in without if len(read) > len(without) else ():
        yield _at(Kind.OTHER_CONFIG, entry)
    yield from _unusual(Kind.OTHER_CONFIG, read, configs)


def _of_weights(entries: Sequence[Entry]) -> Iterator[Finding]:
    """Read each checkpoint once; keep no more of it than names, shapes, types and norms."""
    shapes, types, norms, read = [], [], [], []
    for entry in entries:
        try:
            state = _without_constants(entry.load())
        except (ValueError, FileNotFoundError) as reason:
            yield _at(Kind.DAMAGED, entry, reason=str(reason))
            continue
        if bad := [name for name, weight in state.items() if not bool(torch.isfinite(weight).all())]:
            yield _at(Kind.NON_FINITE_WEIGHTS, entry, weights=tuple(bad))
        read.append(entry)
        shapes.append({name: tuple(weight.shape) for name, weight in state.items()})
        types.append({name: str(weight.dtype) for name, weight in state.items()})
        norms.append(_norms(state))
    yield from _unusual(Kind.OTHER_SHAPES, read, shapes)
    yield from _unusual(Kind.OTHER_TYPES, read, types)
    for index, names in norm_jumps(norms).items():
        yield _at(Kind.OUTLYING_NORM, read[index], weights=tuple(names))


def _without_constants(state: State) -> State:
    """Leave out the buffers that a HookedTransformer's state dict holds: its `IGNORE` is minus infinity by design."""
    return {name: weight for name, weight in state.items() if not name.endswith(models.CONSTANTS)}


def _norms(state: State) -> dict[str, float]:
    """Frobenius norms of the matrices: biases and gains may start at zero, and cross it."""
    return {name: float(weight.float().norm()) for name, weight in state.items() if weight.ndim > 1}


def _unusual(kind: Kind, entries: Sequence[Entry], described: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Compare each checkpoint's description with the most common one."""
    usual = max(described, key=lambda value: sum(value == other for other in described), default={})
    for entry, description in zip(entries, described, strict=True):
        names = sorted(name for name in description.keys() | usual.keys() if description.get(name) != usual.get(name))
        if names:
            yield _at(kind, entry, differences={name: (description.get(name), usual.get(name)) for name in names})
