"""Checkpoints that have a place of their own each: a repository, a folder or a file a step."""

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stagewise.checkpoints._hub_revisions import MAIN, at_revision
from stagewise.checkpoints._weight_files import is_file
from stagewise.checkpoints.hub import Hub
from stagewise.checkpoints.names import GIVE_PARSE, Coordinates, Parse, told
from stagewise.checkpoints.sources import Entry, Source, names_of, of_path

REPOSITORY = r"[\w.-]+/[\w.-]+"
"""The name of a repository of the hub: "owner/name"."""


def expanded(name: str) -> list[str]:
    """Return the names that braces stand for, as a shell does; the name itself if it has none."""
    parts = re.split(r"\{([^{}]*,[^{}]*)\}", name)
    choices = [part.split(",") if k % 2 else [part] for k, part in enumerate(parts)]
    return ["".join(chosen) for chosen in itertools.product(*choices)]


def one_each(
    names: Sequence[str | Path], parse: Parse | str | None = None, hub: Mapping[str, Any] | None = None
) -> Source:
    """Take checkpoints that lie apart, each under a name with its step, in any order."""
    remote = [_is_remote(name) for name in map(str, names)]
    readings = names_of([Path(name) for name in names], parse)
    rows = [(str(name), readings[Path(name)]) for name in names]
    if nameless := [(name, reading.why) for name, reading in rows if reading.at is None]:
        raise ValueError(f"the name {nameless[0][0]} has no step ({nameless[0][1]}): {GIVE_PARSE}")
    entries = tuple(place_of(name, reading.at, hub) for name, reading in rows if reading.at is not None)
    return Source(_common_name([name for name, _ in rows]), entries, remote=any(remote), names=tuple(told(rows)))


def place_of(name: str, at: Coordinates, hub: Mapping[str, Any] | None = None) -> Entry:
    """Return the checkpoint in a folder, a file or a repository of the hub."""
    if _is_remote(name):
        return dataclasses.replace(at_revision(Hub(name, **(hub or {})), MAIN, at), label=name)
    return of_path(Path(name), at)


def _is_remote(name: str) -> bool:
    path = Path(name)
    if path.is_dir() or (path.is_file() and is_file(path)):
        return False
    if not re.fullmatch(REPOSITORY, name):
        raise FileNotFoundError(f"{name} is not there: a list names folders, files, or repositories as owner/name")
    return True


def _common_name(names: Sequence[str]) -> str:
    """Return the common beginning of all names, without any part of the step."""
    same = "".join(each[0] for each in itertools.takewhile(lambda each: len(set(each)) == 1, zip(*names, strict=False)))
    return re.sub(r"([-_./]*(step|checkpoint|ckpt|iter)?[-_./]*\d*)$", "", same) or names[0]
