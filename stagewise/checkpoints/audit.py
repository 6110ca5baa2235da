"""Is this series what it says? Missing, repeated, damaged and outlying checkpoints, found before any measurement."""

import dataclasses
import html
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd
import torch

from stagewise.checkpoints.norm_jumps import norm_jumps
from stagewise.checkpoints.sources import Entry, Source
from stagewise.checkpoints.step_gaps import missing_steps
from stagewise.checkpoints.weight_files import State

KINDS = {
    "missing step": "a step that the plan or the spacing of its neighbours promises is not there",
    "repeated step": "two checkpoints say the same step",
    "out of order": "a step comes after a larger one",
    "other step recorded": "the trainer wrote another step beside the weights than the name says",
    "identical weights": "two steps have the same bytes",
    "no weights": "there are none, or a shard of them is gone",
    "damaged": "the file cannot be read",
    "non-finite weights": "nan or infinity among the weights",
    "outlying norm": "a weight's norm doubles or halves at this checkpoint alone",
    "other shapes": "names or shapes differ from most checkpoints'",
    "other types": "the weights' data types differ from most checkpoints'",
    "other config": "the model's config differs from most checkpoints'",
}
VOLATILE = {"_name_or_path", "transformers_version", "torch_dtype", "dtype", "use_cache"}
"""Fields of a config that may change without the model being another."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One fault: its kind, the steps that it touches, and what exactly was found."""

    kind: str
    steps: tuple[int, ...]
    message: str


@dataclasses.dataclass(frozen=True)
class Audit:
    """What was found wrong with a series.

    Args:
        name: of the series.
        checkpoints: how many there are.
        weights: whether the weights were read, or only names, hashes and configs.
        findings: the faults, kind by kind.
        ignored: names that were not taken for checkpoints.
    """

    name: str
    checkpoints: int
    weights: bool
    findings: tuple[Finding, ...]
    ignored: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    @property
    def table(self) -> pd.DataFrame:
        """The findings, a row each: `kind`, `steps`, `message`."""
        rows = [(found.kind, ", ".join(map(str, found.steps)), found.message) for found in self.findings]
        return pd.DataFrame(rows, columns=["kind", "steps", "message"])

    def __str__(self) -> str:
        read = "and weights" if self.weights else "but no weights"
        head = f"{self.name}: {self.checkpoints} checkpoints; compared: names, hashes, configs {read}"
        lines = [f"  {found.kind}: {found.message}" for found in self.findings] or ["  nothing is wrong"]
        return "\n".join([head, *lines])

    def _repr_html_(self) -> str:
        head = f"<p>{html.escape(str(self).splitlines()[0])}</p>"
        return head + ("<p>nothing is wrong</p>" if self.clean else self.table.to_html(index=False))

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(dataclasses.asdict(self), indent=2)


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
    findings = [*_of_steps(source), *_of_records(entries), *_of_hashes(entries), *_of_configs(entries)]
    if weights:
        findings += _of_weights([entry for entry in entries if not _lost(entry, findings)])
    return Audit(source.name, len(entries), weights, tuple(findings), source.ignored)


def _lost(entry: Entry, findings: Sequence[Finding]) -> bool:
    """Whether it is known already that the weights cannot be read."""
    kinds = ("no weights", "damaged")
    return any(found.kind in kinds and found.message.startswith(f"{entry.label}: ") for found in findings)


def _of_steps(source: Source) -> Iterator[Finding]:
    for branch in sorted({entry.at.branch for entry in source.entries}):
        own = [entry for entry in source.entries if entry.at.branch == branch]
        where = f" of {branch}" if branch else ""
        if source.ordered:
            for before, after in pairwise(own):
                if after.at.step < before.at.step:
                    message = f"{after.label}, step {after.at.step}, comes after step {before.at.step}"
                    yield Finding("out of order", (after.at.step,), message)
        by_step: dict[int, list[str]] = {}
        for entry in own:
            by_step.setdefault(entry.at.step, []).append(entry.label)
        for step, labels in sorted(by_step.items()):
            if len(labels) > 1:
                yield Finding("repeated step", (step,), f"step {step}{where}: {', '.join(labels)}")
        there = sorted(by_step)
        gone = sorted(set(source.promised) - set(there)) if source.promised else missing_steps(there)
        for step in gone:
            yield Finding("missing step", (step,), f"step {step}{where} is not there")


def _of_records(entries: Sequence[Entry]) -> Iterator[Finding]:
    for entry in entries:
        if entry.recorded is not None and entry.recorded != entry.at.step:
            message = f"{entry.label}: its name says step {entry.at.step}, its trainer_state.json {entry.recorded}"
            yield Finding("other step recorded", (entry.at.step,), message)


def _of_hashes(entries: Sequence[Entry]) -> Iterator[Finding]:
    by_hash: dict[str, list[Entry]] = {}
    for entry in entries:
        try:
            digest = entry.digest()
        except FileNotFoundError as reason:
            yield Finding("no weights", (entry.at.step,), f"{entry.label}: {reason}")
            continue
        except ValueError as reason:
            yield Finding("damaged", (entry.at.step,), f"{entry.label}: {reason}")
            continue
        if digest is None:
            yield Finding("no weights", (entry.at.step,), f"{entry.label}: holds no weights")
        else:
            by_hash.setdefault(digest, []).append(entry)
    for same in by_hash.values():
        if len({(entry.at.branch, entry.at.step) for entry in same}) > 1:
            labels = ", ".join(entry.label for entry in same)
            yield Finding("identical weights", tuple(e.at.step for e in same), f"{labels} have the same bytes")


def _of_configs(entries: Sequence[Entry]) -> Iterator[Finding]:
    read: list[tuple[Entry, Mapping[str, Any]]] = []
    without: list[Entry] = []
    for entry in entries:
        try:
            config = entry.config()
        except ValueError as reason:
            yield Finding("damaged", (entry.at.step,), f"{entry.label}: {reason}")
            continue
        if config is None:
            without.append(entry)
        else:
            read.append((entry, {key: value for key, value in config.items() if key not in VOLATILE}))
    for entry in without if len(read) > len(without) else ():
        yield Finding("other config", (entry.at.step,), f"{entry.label}: has none, most others have one")
    usual = _most_common([config for _, config in read])
    for entry, config in read:
        keys = sorted(key for key in config.keys() | (usual or {}).keys() if config.get(key) != (usual or {}).get(key))
        if keys:
            changes = ", ".join(f"{key} = {config.get(key)} for {(usual or {}).get(key)}" for key in keys[:4])
            yield Finding("other config", (entry.at.step,), f"{entry.label}: {changes}")


def _of_weights(entries: Sequence[Entry]) -> Iterator[Finding]:
    """Read each checkpoint once; keep no more of it than names, shapes, types and norms."""
    shapes, types, norms, read = [], [], [], []
    for entry in entries:
        try:
            state = entry.load()
        except (ValueError, FileNotFoundError) as reason:
            yield Finding("damaged", (entry.at.step,), f"{entry.label}: {reason}")
            continue
        if bad := [name for name, weight in state.items() if not bool(torch.isfinite(weight).all())]:
            yield Finding("non-finite weights", (entry.at.step,), f"{entry.label}: {_some(bad)}")
        read.append(entry)
        shapes.append({name: tuple(weight.shape) for name, weight in state.items()})
        types.append({name: str(weight.dtype) for name, weight in state.items()})
        norms.append(_norms(state))
    yield from _unusual("other shapes", read, shapes)
    yield from _unusual("other types", read, types)
    steps = [entry.at.step for entry in read]
    for place, names in norm_jumps(norms).items():
        yield Finding("outlying norm", (steps[place],), f"{read[place].label}: {_some(names)}")


def _norms(state: State) -> dict[str, float]:
    """Frobenius norms of the matrices: biases and gains may start at zero, and cross it."""
    return {name: float(weight.float().norm()) for name, weight in state.items() if weight.ndim > 1}


def _unusual(kind: str, entries: Sequence[Entry], told: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    usual = _most_common(told) or {}
    for entry, own in zip(entries, told, strict=True):
        if names := sorted(name for name in own.keys() | usual.keys() if own.get(name) != usual.get(name)):
            first = f"{names[0]} is {own.get(names[0], 'not there')} for {usual.get(names[0], 'not there')}"
            more = f", and {len(names) - 1} more" if len(names) > 1 else ""
            yield Finding(kind, (entry.at.step,), f"{entry.label}: {first}{more}")


def _most_common(values: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return max(values, key=lambda value: sum(value == other for other in values), default=None)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f", and {len(names) - 3} more" if len(names) > 3 else "")
