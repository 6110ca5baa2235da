"""Checkpoints that have a place of their own each: a repository, a folder or a file a step."""

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stagewise.checkpoints.hub import Hub
from stagewise.checkpoints.hub_revisions import at_revision
from stagewise.checkpoints.names import Coordinates, Parse, coordinates, parse, parse_file, parse_within
from stagewise.checkpoints.sources import Entry, Source, of_file, of_folder
from stagewise.checkpoints.weight_files import ENDINGS

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


def one_each(names: Sequence[str | Path], how: Parse | None = None, hub: Mapping[str, Any] | None = None) -> Source:
    """Take checkpoints that lie apart, each under a name with its step, in any order.

    Args:
        names: repositories, folders and files.
        how: from the last part of a name to its step.
        hub: options of `hub.Hub`.

    Raises:
        FileNotFoundError: one of them is neither here nor named like a repository.
        ValueError: a name has no step.
        OSError: the hub does not answer.
    """
    entries = [_entry(str(name), how, hub or {}) for name in names]
    ordered = sorted(entries, key=lambda entry: (entry.at.branch, entry.at.step, entry.label))
    remote = any(not Path(name).exists() for name in names)
    return Source(_common_name([str(name) for name in names]), tuple(ordered), remote=remote)


def _entry(name: str, how: Parse | None, hub: Mapping[str, Any]) -> Entry:
    path = Path(name)
    if path.is_file() and path.suffix in ENDINGS:
        return of_file(path, _step_of(path.stem, name, how or parse_file))
    if path.is_dir():
        return of_folder(path, _step_of(path.name, name, how or parse))
    if not re.fullmatch(REPOSITORY, name):
        raise FileNotFoundError(f"{name} is not there: a list names folders, files, or repositories as owner/name")
    entry = at_revision(Hub(name, **hub), LATEST, _step_of(path.name, name, how or parse))
    return dataclasses.replace(entry, label=name)


def _step_of(text: str, name: str, how: Parse) -> Coordinates:
    at = coordinates(text, how) or parse_within(text)
    if at is None:
        raise ValueError(f"the name {name} has no step: give the one that a name stands for, `parse=lambda name: ...`")
    return at


def _common_name(names: Sequence[str]) -> str:
    """Return what all names begin with, without what belongs to the step."""
    same = "".join(each[0] for each in itertools.takewhile(lambda each: len(set(each)) == 1, zip(*names, strict=False)))
    return re.sub(r"([-_./]*(step|checkpoint|ckpt|iter)?[-_./]*\d*)$", "", same) or names[0]
