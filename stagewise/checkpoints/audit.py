"""Faults of a series before any measurement: missing, repeated, damaged, misplaced and deviating checkpoints."""

import bisect
import contextlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from stagewise import models
from stagewise.checkpoints import _checksums as checksums
from stagewise.checkpoints._architectures import UnknownModelError
from stagewise.checkpoints._comparisons import at_entry, other_steps, read_each, unusual
from stagewise.checkpoints._digest import bytes_of
from stagewise.checkpoints._path_rules import FIRST_UPDATE
from stagewise.checkpoints._step_gaps import missing_steps
from stagewise.checkpoints._table_file import read_json
from stagewise.checkpoints._weight_faults import weight_faults
from stagewise.checkpoints._weight_names import TRAINING, is_file, stem
from stagewise.checkpoints.findings import Audit, Finding, Kind
from stagewise.checkpoints.names import convention, is_step, read_names
from stagewise.checkpoints.series import find
from stagewise.checkpoints.sources import STEP, TRAINER, Entry, Source, architecture_of, written_backwards

VOLATILE = {"_name_or_path", "transformers_version", "torch_dtype", "dtype", "use_cache"}
"""Fields of a config that may change without changing the model."""

MARKERS = ("latest_checkpointed_iteration.txt", "latest", "last_checkpoint")
"""Files in which Megatron, DeepSpeed and detectron2 name the last checkpoint."""

TRAINED_TO, SAVED_EVERY = "max_steps", "save_steps"
"""Fields of its plan that Trainer writes beside every checkpoint."""

UNREAD = (Kind.NO_WEIGHTS, Kind.DAMAGED, Kind.NOT_ONLY_WEIGHTS)

MOST_DUE = 1000
"""Steps that a trainer still meant to save, at most: of more it saved others."""


def audit(source: Source | str | Path, *, weights: bool = True, architecture: Any = None, fit: bool = True) -> Audit:
    """Look for faults in the checkpoints of a source.

    Args:
        source: what `open_series` opens, or from `series.find`.
        weights: read the weights too, one checkpoint at a time. Without, the hashes that a hub knows find identical
            weights, and nothing is downloaded but configs.
        architecture: of the models, as `open_series` takes it.
        fit: load the weights of the last checkpoint into its model, where weights are read.

    Raises:
        OSError: the hub does not answer.
    """
    source = source if isinstance(source, Source) else find(source)
    entries = source.entries
    of_files = list(_of_hashes(source))
    findings = [*_of_steps(source), *_of_records(source), *of_files, *_of_configs(source)]
    notes, last = [], max((entry.at.step for entry in entries), default=None)
    if last is not None and source.planned is not None and last < source.planned:
        notes.append(Finding(Kind.UNFINISHED, (last,), other_step=source.planned))
    lost = {one.checkpoints for one in of_files if one.kind in (Kind.NO_WEIGHTS, Kind.DAMAGED)}
    readable = [entry for entry in entries if (entry.label,) not in lost]
    if weights:
        of_weights = list(weight_faults(source, readable, {one.steps for one in of_files}))
        notes += [one for one in of_weights if one.kind is Kind.LEFT_ASIDE]
        findings += [one for one in of_weights if one.kind is not Kind.LEFT_ASIDE]
    unread = {label for one in findings if one.kind in UNREAD for label in one.checkpoints}
    readable = [entry for entry in readable if entry.label not in unread]
    findings = _without_other_forms(source, readable, findings, architecture)
    unfit = (_unfit(source, each, architecture) for each in readable[-1:] if weights and fit)
    for one, known in filter(None, unfit):
        (findings if known else notes).append(one)
    findings += _of_lists(source, {label for one in findings for label in one.checkpoints})
    return Audit(source.name, len(entries), weights, tuple(findings), source.ignored, tuple(notes), source.names)


def _unfit(source: Source, entry: Entry, given: Any) -> tuple[Finding, bool] | None:
    """Load a checkpoint as a measurement does; return why it cannot, and whether anything says what the model is."""
    try:
        models.holding(architecture_of(source, given), entry.load())
    except UnknownModelError as reason:
        return at_entry(Kind.UNFIT, entry, reason=str(reason).partition(": ")[0]), False
    except (ValueError, OSError) as reason:
        return at_entry(Kind.UNFIT, entry, reason=str(reason)), True
    return None


def _without_other_forms(
    source: Source, entries: Sequence[Entry], findings: Sequence[Finding], given: Any
) -> list[Finding]:
    """Leave out other names of weights in which the model has them too, as a mixture's experts one by one."""
    forms = [one for one in findings if one.kind in (Kind.OTHER_SHAPES, Kind.OTHER_TYPES)]
    renamed = [one for one in forms if all(None in pair for pair in one.differences.values())]
    labels = {label for one in renamed for label in one.checkpoints}
    fit = {each.label for each in entries if each.label in labels and _unfit(source, each, given) is None}
    return [one for one in findings if one not in renamed or not fit.issuperset(one.checkpoints)]


def _of_steps(source: Source) -> Iterator[Finding]:
    """Yield steps out of order, repeated or missing, branch by branch, and those that a run should have saved."""
    for branch in source.branches:
        own = [entry for entry in source.entries if source.begins is None or entry.at.step > source.begins]
        entries = [entry for entry in own if entry.at.branch == branch]
        for before, after in pairwise(entries):
            if after.at.step < before.at.step:
                yield at_entry(Kind.OUT_OF_ORDER, after, other_step=before.at.step)
        by_step: dict[int, list[str]] = {}
        for entry in entries:
            by_step.setdefault(entry.at.step, []).append(entry.label)
        for step, labels in sorted(by_step.items()):
            if len(labels) > 1:
                yield Finding(Kind.REPEATED_STEP, (step,), tuple(labels), branch)
        steps = sorted(by_step)
        missing = sorted(set(source.promised) - set(steps)) if source.promised else missing_steps(steps)
        for _, gap in groupby(missing, partial(bisect.bisect, steps)):
            yield Finding(Kind.MISSING_STEP, tuple(gap), branch=branch)
        yield from _of_names(source, entries)
        if why := written_backwards(sorted(entries, key=lambda entry: entry.at.step)):
            yield Finding(Kind.OTHER_ORDER, tuple(steps), branch=branch, reason=why)
    if source.lost:
        yield Finding(Kind.MISSING_STEP, source.lost, reason="the run was trained beyond it")


def _of_names(source: Source, entries: Sequence[Entry]) -> Iterator[Finding]:
    """Yield names of another convention than most, and steps of which other files of this folder tell."""
    if source.folder is None or not entries:
        return
    names = [convention(entry.label) for entry in entries]
    usual, _ = Counter(names).most_common(1)[0]
    if others := [entry for entry, name in zip(entries, names, strict=True) if name != usual]:
        yield at_entry(Kind.OTHER_NAMES, *others, reason=entries[names.index(usual)].label)
    present = {entry.at.step for entry in entries}
    for step, where in sorted(_told_of(source.folder, {*names}, present).items()):
        if step > max(present) and step not in {*source.lost, *source.promised}:
            yield Finding(Kind.MISSING_STEP, (step,), branch=entries[0].at.branch, reason=f"{where} tells of it")


def _told_of(folder: Path, conventions: Collection[str], steps: Collection[int]) -> dict[int, str]:
    """Return the steps of which a list of checksums tells, a marker, or the states of a training beside its weights."""
    told: dict[int, str] = {}
    for name in checksums.listed(folder):
        if convention(name) in conventions and (at := read_names([stem(Path(name))])[0].at):
            told[at.step] = checksums.LIST
    states: dict[str, dict[int, str]] = {}
    for path in folder.iterdir():
        if TRAINING.match(path.name) and is_file(path) and (at := read_names([stem(path)])[0].at):
            states.setdefault(convention(path.name), {})[at.step] = path.name
    for marker in (folder / name for name in MARKERS):
        name = bytes_of(marker).decode(errors="replace").strip() if marker.is_file() else ""
        if at := read_names([stem(Path(name))])[0].at:
            told[at.step] = marker.name
    # Other numbers, as of the processes that took part, are hardly steps of the series.
    return told | {step: name for of in states.values() if {*of} & {*steps} - {0} for step, name in of.items()}


def _of_records(source: Source) -> Iterator[Finding]:
    """Compare the trainer's records beside the weights: its step, and how far and how often it meant to save."""
    records, faults = read_each(source, source.entries, lambda entry: entry.record() or {})
    yield from faults
    steps = {entry: record[STEP] for entry, record in records.items() if is_step(record.get(STEP))}
    yield from other_steps(steps, "its trainer_state.json")
    planned = [plan for record in records.values() for plan in _planned(record, TRAINED_TO)]
    if not planned and source.folder is not None and (source.folder / TRAINER).exists():  # what `save_state` writes
        with contextlib.suppress(ValueError):  # it is no part of the series
            planned = _planned(read_json(source.folder / TRAINER), STEP)
    if planned:
        last, every = Counter(planned).most_common(1)[0][0]
        yield from _of_plan(source, last, every)


def _planned(record: Mapping[str, Any], last: str) -> list[tuple[int, int]]:
    """Return the last step and how often is saved, by a record of Trainer's; nothing where it does not say."""
    number, every = record.get(last, 0), record.get(SAVED_EVERY, 0)
    return [(number, every)] if all(is_step(each) and each > 0 for each in (number, every)) else []


def _of_plan(source: Source, last: int, every: int) -> Iterator[Finding]:
    """Yield the last steps that Trainer meant to save: every so many, or, where it saved others too, the last one."""
    steps = {entry.at.step for entry in source.entries}
    if len(steps) < 2:
        return
    every_one = not any(step % every for step in steps) and last - max(steps) <= MOST_DUE * every
    due = tuple(range(max(steps) + every, last + 1, every)) if every_one else (last,)
    if due and last > max(steps):
        why = f"training was planned to step {last}; it was interrupted, or the checkpoint is gone"
        yield Finding(Kind.MISSING_STEP, due, reason=why)


def _of_hashes(source: Source) -> Iterator[Finding]:
    digests, faults = read_each(source, source.entries, lambda entry: entry.digest())
    yield from faults
    by_hash: dict[str, list[Entry]] = {}
    for entry, digest in digests.items():
        if digest is None:
            yield at_entry(Kind.NO_WEIGHTS, entry)
        else:
            by_hash.setdefault(digest, []).append(entry)
    for same in by_hash.values():
        copies = len({(entry.at.branch, entry.at.step) for entry in same}) > 1
        if copies and {entry.at.step for entry in same} != FIRST_UPDATE:
            yield at_entry(Kind.IDENTICAL_WEIGHTS, *same)


def _of_lists(source: Source, told: Collection[str]) -> Iterator[Finding]:
    """Yield the other files of a folder without the bytes that they were written with, and damaged lists of these."""
    if source.folder is None:
        return
    for path, why in checksums.faults(source.folder):
        if path.name not in told:
            yield Finding(Kind.DAMAGED, (), (str(path.relative_to(source.folder)),), reason=why)


def _of_configs(source: Source) -> Iterator[Finding]:
    configs, faults = read_each(source, source.entries, lambda entry: entry.config())
    yield from faults
    held = {entry: config for entry, config in configs.items() if config is not None}
    without = [entry for entry in configs if entry not in held]
    if len(held) > len(without):
        yield from (at_entry(Kind.OTHER_CONFIG, entry) for entry in without)
    lasting = {entry: {k: value for k, value in of.items() if k not in VOLATILE} for entry, of in held.items()}
    yield from unusual(Kind.OTHER_CONFIG, lasting)
