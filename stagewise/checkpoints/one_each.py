"""Checkpoints that have a place of their own each: a repository, a folder or a file a step."""

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stagewise.checkpoints.hub import Hub
from stagewise.checkpoints.hub_revisions import at_revision
from stagewise.checkpoints.names import GIVE_PARSE, Coordinates, Parse, Reading, reader_of, told
from stagewise.checkpoints.sources import Entry, Source, of_file, of_folder
from stagewise.checkpoints.weight_files import is_file, stem

LATEST = "main"
"""The revision that is read of each repository."""

REPOSITORY = r"[\w.-]+/[\w.-]+"
"""What a repository of the hub is called: "owner/name"."""


def expanded(name: str) -> list[str]:
    """Return the names that braces stand for, as a shell does; the name itself if it has none.

    >>> expanded("google/multiberts-seed_0-step_{0,20,40}k")[1]
    'google/multiberts-seed_0-step_20k'
    """
    parts = re.split(r"\{([^{}]*,[^{}]*)\}", name)
    choices = [part.split(",") if k % 2 else [part] for k, part in enumerate(parts)]
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def one_each(
    names: Sequence[str | Path], parse: Parse | str | None = None, hub: Mapping[str, Any] | None = None
) -> Source:
    """Take checkpoints that lie apart, each under a name with its step, in any order.

    Args:
        names: repositories, folders and files.
        parse: from the last part of a name to its step, as `open_series` takes it.
        hub: options of `hub.Hub`.

    Raises:
        FileNotFoundError: one of them is neither here nor named like a repository.
        ValueError: a name has no step.
        OSError: the hub does not answer.
    """
    kinds = [_kind(str(name)) for name in names]
    readings: list[Reading] = [Reading(None)] * len(names)
    for kind in set(kinds):
        rows = [row for row, each in enumerate(kinds) if each == kind]
        texts = [stem(path) if kind == FILE else path.name for path in (Path(names[row]) for row in rows)]
        for row, reading in zip(rows, reader_of(parse, bare=kind == FILE)(texts), strict=True):
            readings[row] = reading
    entries = [_entry(str(name), kind, one, hub or {}) for name, kind, one in zip(names, kinds, readings, strict=True)]
    ordered = sorted(entries, key=lambda entry: (entry.at.branch, entry.at.step, entry.label))
    rows_told = told([(str(name), reading) for name, reading in zip(names, readings, strict=True)])
    name = _common_name([str(name) for name in names])
    return Source(name, tuple(ordered), remote=REMOTE in kinds, names=tuple(rows_told))


FILE, FOLDER, REMOTE = "file", "folder", "repository"


def _kind(name: str) -> str:
    path = Path(name)
    if path.is_dir() or (path.is_file() and is_file(path)):
        return FOLDER if path.is_dir() else FILE
    if not re.fullmatch(REPOSITORY, name):
        raise FileNotFoundError(f"{name} is not there: a list names folders, files, or repositories as owner/name")
    return REMOTE


def base_entry(name: str, hub: Mapping[str, Any] | None = None) -> Entry:
    """Return the model that adapters change, a folder, a file or a repository of the hub, as the checkpoint of step 0.

    Raises:
        FileNotFoundError: it is neither here nor named like a repository.
    """
    return _entry(name, _kind(name), Reading(Coordinates(0)), hub or {})


def _entry(name: str, kind: str, reading: Reading, hub: Mapping[str, Any]) -> Entry:
    if reading.at is None:
        raise ValueError(f"the name {name} has no step ({reading.why}): {GIVE_PARSE}")
    if kind != REMOTE:
        return (of_file if kind == FILE else of_folder)(Path(name), reading.at)
    return dataclasses.replace(at_revision(Hub(name, **hub), LATEST, reading.at), label=name)


def _common_name(names: Sequence[str]) -> str:
    """Return what all names begin with, without what belongs to the step."""
    same = "".join(each[0] for each in itertools.takewhile(lambda each: len(set(each)) == 1, zip(*names, strict=False)))
    return re.sub(r"([-_./]*(step|checkpoint|ckpt|iter)?[-_./]*\d*)$", "", same) or names[0]
