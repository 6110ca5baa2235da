"""A run is a folder: the names in it, and writing that never leaves half a file."""

import contextlib
import errno
import importlib.metadata
import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from stagewise.recipe import Recipe, describe, differences

RUN = "run.json"
METRICS = "metrics.parquet"
RESUME = "resume.pt"
TABLE = "tables/measurements.parquet"
REPEATED = "tables/repeated-tokens.parquet"
"""What was measured on repeated random tokens, beside a task's own probe batch."""

REPORT = "report.html"
ANALYSIS = "analysis.json"
"""What `analyse` writes in the place of run.json, for checkpoints that were trained elsewhere."""


def checkpoint_file(folder: Path, step: int) -> Path:
    """Return where the weights of a step are.

    >>> checkpoint_file(Path("run"), 300).as_posix()
    'run/checkpoints/step-00000300.safetensors'
    """
    return folder / "checkpoints" / f"step-{step:08d}.safetensors"


def write(path: Path, save: Callable[[Path], object]) -> Path:
    """Write a file under a temporary name, sync it, and rename it: it is there whole, or as it was before.

    Raises:
        OSError: it could not be written; the message says so, and whether the disk is full.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        save(partial)
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException as reason:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        if _disk_is_full(reason):
            raise OSError(
                errno.ENOSPC,
                "the disk is full. What was there before is untouched: free some space and run the same command "
                "again, it goes on from the last checkpoint",
                str(path),
            ) from reason
        raise
    return path


def _disk_is_full(reason: BaseException) -> bool:
    # safetensors and torch report a failed write by their own exception types, with the system's words in them.
    return getattr(reason, "errno", None) == errno.ENOSPC or os.strerror(errno.ENOSPC) in str(reason)


def write_json(path: Path, value: Any) -> Path:
    """Write plain data as indented JSON."""
    return write(path, lambda partial: partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf8"))


def claim(folder: Path, recipe: Recipe | Mapping[str, Any], name: str = RUN) -> None:
    """Write run.json in a new folder; in one that holds a run, check that it is a run of the same recipe.

    What is trained without a `Recipe` gives its settings as plain data, and the name of the file for them.

    Raises:
        ValueError: the folder belongs to another recipe; the message lists the fields that differ.
    """
    expected = describe(recipe)
    if (folder / name).exists():
        lines = differences(expected, read_run(folder, name)["recipe"])
        if lines:
            raise ValueError(
                f"{folder} holds a run of another recipe:\n  " + "\n  ".join(lines) + "\n"
                "Choose another folder, or delete this one to start over; nothing in it was changed"
            )
        return
    write_json(folder / name, {"recipe": expected, "versions": versions()})


def read_run(folder: Path, name: str = RUN) -> dict[str, Any]:
    """Read run.json: the recipe as plain data, and the versions that made the run.

    Raises:
        FileNotFoundError: the folder holds no run.
        ValueError: run.json is not readable.
    """
    path = folder / name
    if not path.exists():
        raise FileNotFoundError(f"{folder} is not a run folder: there is no {name} in it")
    try:
        run: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
    except json.JSONDecodeError as reason:
        raise ValueError(f"{path} is not valid JSON ({reason}); restore it, or train again in a new folder") from reason
    if not isinstance(run, dict) or "recipe" not in run:
        raise ValueError(f"{path} records no recipe: it was not written by this library; choose another folder")
    return run


def read_record(folder: Path) -> dict[str, Any]:
    """Read what was measured: run.json, or the analysis.json of checkpoints that were trained elsewhere.

    Raises:
        FileNotFoundError: there is neither.
        ValueError: it is not readable.
    """
    path = folder / ANALYSIS
    if (folder / RUN).exists() or not path.exists():
        return read_run(folder)
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
    except json.JSONDecodeError as reason:
        raise ValueError(f"{path} is not valid JSON ({reason}); run `stagewise measure` again") from reason
    return record


def is_finished(folder: Path) -> bool:
    """Whether a run's last checkpoint is there.

    Raises:
        FileNotFoundError: the folder holds no run.
    """
    return checkpoint_file(folder, read_run(folder)["recipe"]["plan"]["steps"]).exists()


def read_table(folder: Path) -> pd.DataFrame:
    """Read a run folder's table of measurements.

    Raises:
        FileNotFoundError: it was not measured yet.
        ValueError: an earlier version measured it, which did not say which references are partial solutions.
    """
    path = folder / TABLE
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: measure the run first, with `stagewise measure {folder}`")
    table = pd.read_parquet(path)
    if "reference" in table and "nested" not in table:
        raise ValueError(
            f"{path} was measured by an earlier version of stagewise and does not say which of its references are "
            f"partial solutions: measure it anew, with `stagewise measure {folder}`"
        )
    return table


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide the numbers."""
    packages = ("stagewise", "transformer-lens", "torch", "numpy", "scipy", "scikit-learn", "pandas")
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
    }
