"""A run is a folder: the names in it, and writing that never leaves half a file.

torch is imported where weights are read: stages and reports come from tables alone, and start seconds sooner.
"""

import contextlib
import errno
import importlib.metadata
import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from stagewise.checkpoints.json_files import read_json
from stagewise.checkpoints.table_file import TableFile

if TYPE_CHECKING:
    from stagewise.checkpoints.weight_files import State
    from stagewise.recipe import Recipe

RUN = "run.json"
METRICS = "metrics.parquet"
RESUME = "resume.pt"
TABLE = "tables/measurements.parquet"
REPEATED = "tables/repeated-tokens.parquet"
"""What was measured on repeated random tokens, beside a task's own probe batch."""

BATCH = "tables/batch.json"
"""What a report needs to know of the probe batch: where relations lie, which queries are scored, which references."""

REPORT = "report.html"
ANALYSIS = "analysis.json"
"""What `analyse` writes instead of run.json, for checkpoints that were trained elsewhere."""


def checkpoint_file(folder: Path, step: int) -> Path:
    """Return where the weights of a step are.

    >>> checkpoint_file(Path("run"), 300).as_posix()
    'run/checkpoints/step-00000300.safetensors'
    """
    return folder / "checkpoints" / f"step-{step:08d}.safetensors"


def write(path: Path, save: Callable[[Path], object]) -> Path:
    """Write a file under a temporary name, sync it, and rename it: the file is complete, or as it was before.

    Raises:
        OSError: it could not be written; the message says whether the disk is full.
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
                "again, it resumes from the last checkpoint",
                str(path),
            ) from reason
        raise
    return path


def _disk_is_full(reason: BaseException) -> bool:
    # safetensors and torch report a failed write by their own exception types, with the system's message in them.
    return getattr(reason, "errno", None) == errno.ENOSPC or os.strerror(errno.ENOSPC) in str(reason)


def write_json(path: Path, value: Any) -> Path:
    """Write plain data as indented JSON."""
    return write(path, lambda partial: partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf8"))


def claim(folder: Path, recipe: "Recipe | Mapping[str, Any]", name: str = RUN) -> None:
    """Write run.json in a new folder; in one that holds a run, check that it is a run of the same recipe.

    For a training without a `Recipe`, give its settings as plain data and the name of the file for them.

    Raises:
        ValueError: the folder belongs to another recipe; the message lists the fields that differ.
    """
    from stagewise.recipe import describe, differences

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
        ValueError: run.json is not readable, or records no recipe.
    """
    path = folder / name
    if not path.exists():
        raise FileNotFoundError(f"{folder} is not a run folder: there is no {name} in it")
    return _record(path, "restore it, or train again in a new folder")


def read_record(folder: Path) -> dict[str, Any]:
    """Read what was measured: run.json, or the analysis.json of checkpoints that were trained elsewhere.

    Raises:
        FileNotFoundError: there is neither.
        ValueError: it is not readable.
    """
    path = folder / ANALYSIS
    if (folder / RUN).exists() or not path.exists():
        return read_run(folder)
    return _record(path, "run `stagewise report` on the checkpoints again")


def _record(path: Path, fix: str) -> dict[str, Any]:
    record = read_json(path, fix)
    if not isinstance(record.get("recipe"), dict):
        raise ValueError(f"{path} records no recipe, so it was not written by this library: {fix}")
    return record


def read_checkpoint(folder: Path, step: int) -> "State":
    """Read the weights of a step.

    Raises:
        FileNotFoundError: the file is gone.
        ValueError: it is truncated or damaged; the message names it.
    """
    from stagewise.checkpoints.weight_files import load_file

    path = checkpoint_file(folder, step)
    weights: State = load_file(path, f"Restore it, or delete {path.parent} and train again: it gives the same bits")
    return weights


def read_resume(path: Path) -> dict[str, Any]:
    """Read the state from which training resumes.

    Raises:
        FileNotFoundError: there is none.
        ValueError: the file is damaged; the message names it.
    """
    from stagewise.checkpoints.weight_files import load_file

    fix = "Delete it and train again: that starts over, and gives the same bits"
    state = load_file(path, fix)
    if not isinstance(state, dict):
        raise ValueError(f"{path} holds no state of a training. {fix}")
    return state


def read_plan(folder: Path) -> dict[str, Any]:
    """Read the plan of a run as plain data: its `steps`, the steps to `save`, and more.

    Raises:
        FileNotFoundError: the folder holds no run.
        ValueError: its record is not readable, or has no plan.
    """
    plan = read_run(folder)["recipe"].get("plan")
    if not isinstance(plan, dict) or not {"steps", "save"} <= plan.keys():
        raise ValueError(f"{folder / RUN} records no plan: restore it, or train again in a new folder")
    return plan


def is_finished(folder: Path) -> bool:
    """Whether a run's last checkpoint is there.

    Raises:
        FileNotFoundError: the folder holds no run.
        ValueError: its record is not readable.
    """
    return checkpoint_file(folder, read_plan(folder)["steps"]).exists()


def read_table(folder: Path) -> pd.DataFrame:
    """Read a run folder's table of measurements, all but its maps; the errors are those of `table_file`."""
    file = table_file(folder)
    return pd.read_parquet(file.path, columns=[name for name in file.names if name != "map"])


def table_file(folder: Path) -> TableFile:
    """Return a run folder's table of measurements, to read parts of it.

    Raises:
        FileNotFoundError: it has not been measured yet.
        ValueError: an earlier version measured it, without the column `nested` of partial solutions.
    """
    file = TableFile(folder / TABLE)
    if not file.path.exists():
        raise FileNotFoundError(f"{file.path} is not there: measure the run first, with `stagewise measure {folder}`")
    if "reference" in file.names and "nested" not in file.names:
        raise ValueError(
            f"{file.path} was measured by an earlier version of stagewise and does not mark which of its references "
            f"are partial solutions: measure it anew, with `stagewise measure {folder}`"
        )
    return file


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide the numbers."""
    packages = ("stagewise", "transformer-lens", "torch", "numpy", "scipy", "scikit-learn", "pandas")
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
    }
