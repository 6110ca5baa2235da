"""Checkpoints that a running training is asked for: a file in its folder, which it reads whenever it has saved one."""

from collections.abc import Iterable
from pathlib import Path

from stagewise.checkpoints._table_file import read_json
from stagewise.checkpoints._writing import write_json
from stagewise.checkpoints.names import is_step

REQUESTED = "requested.json"
"""In the folder that a training saves in: further steps to save. It stays, so that a resumed run saves the same."""


def requested(folder: Path) -> frozenset[int]:
    """Return the steps that a training is asked to save beside its own.

    Raises:
        ValueError: the file is damaged.
    """
    path = folder / REQUESTED
    if not path.exists():
        return frozenset()
    fix = "delete it, and train on"
    steps = read_json(path, fix).get("steps")
    if not isinstance(steps, list) or not all(map(is_step, steps)):
        raise ValueError(f"{path} holds no list of `steps`: {fix}")
    return frozenset(steps)


def request(folder: Path, steps: Iterable[int]) -> None:
    """Ask the training that saves in a folder for further checkpoints, beside those of earlier requests."""
    write_json(folder / REQUESTED, {"steps": sorted(requested(folder).union(steps))})
