"""A run is a folder: the names in it, and what reads them.

Every reader raises a FileNotFoundError for a folder without a run, or a file that is not there, and a ValueError for a
file that is damaged or records something else; the message names it and says what to do.

torch is imported where weights are read: stages and reports come from tables alone, and start seconds sooner.
"""

import contextlib
import importlib.metadata
import platform
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from stagewise.checkpoints import _checksums as checksums
from stagewise.checkpoints._table_file import TableFile, parquet_faults, read_json
from stagewise.checkpoints._writing import held as held
from stagewise.checkpoints._writing import remove_leftovers as remove_leftovers
from stagewise.checkpoints._writing import write as write
from stagewise.checkpoints._writing import write_json as write_json
from stagewise.checkpoints.names import is_step
from stagewise.plain_text import plain_names
from stagewise.table import ARRAYS

FORMAT = 1
"""The form of run.json and analysis.json that this version writes, under the key `format`."""

RUN = "run.json"
METRICS = "metrics.parquet"
RESUME = "resume.pt"
RESTRICTED, SHARED = "restricted", "restricted/shared.json"
"""In a run folder: its restricted-context models, each a run folder named by its context, and the paths of those that
it shares with other runs, by context, relative to it."""

STATES = "states"
"""In a run folder: the optimiser's states that a replay starts from, a file a step."""

TABLE = "tables/measurements.parquet"
REPEATED = "tables/repeated-tokens.parquet"
"""The table of repeated random tokens, beside that of a task's own probe batch."""

INTERVENTIONS = "tables/interventions.parquet"
CERTIFICATE = "tables/certificate.parquet"
"""Verdicts on what each transition needs."""

BATCH = "tables/batch.json"
"""The record of the probe batch for a report: where relations lie, which queries are scored, which references."""

EXAMPLE = "tables/example.json"
"""One sequence as text, and what heads attend to in it at each boundary of stages and at the end."""

REPORT = "report.html"
ANALYSIS, SOURCE = "analysis.json", "parts/source.json"
"""Records that `analyse` writes of checkpoints trained elsewhere: one in place of run.json, one of the source."""


def checkpoint_file(folder: Path, step: int) -> Path:
    """Return where the weights of a step are.

    >>> checkpoint_file(Path("run"), 300).as_posix()
    'run/checkpoints/step-00000300.safetensors'
    """
    return folder / "checkpoints" / f"step-{step:08d}.safetensors"


def state_file(folder: Path, step: int) -> Path:
    """Return where the state of the optimiser at a step is, where it is kept."""
    return folder / STATES / f"step-{step:08d}.pt"


def claim(folder: Path, recipe: Any, name: str = RUN, parent: Mapping[str, Any] | None = None) -> None:
    """Write run.json in a new folder; in one that holds a run, check that it is a run of the same recipe.

    For a training without a `Recipe`, give its settings as plain data and the name of the file for them. The parent is
    the run that this one leaves: its `folder`, relative to this one, and the `step`.

    Raises:
        ValueError: the folder belongs to another recipe, and the message lists the fields that differ; or it holds
            checkpoints of no recipe.
    """
    from stagewise.recipe import describe, differences

    expected = describe(recipe)
    if (folder / name).exists():
        if different := differences(expected, read_run(folder, name)["recipe"]):
            raise ValueError(
                f"{folder} holds a run of another recipe:\n  " + "\n  ".join(map(str, different)) + "\n"
                "Choose another folder, or delete this one to start over; nothing in it was changed"
            )
        return
    if name == RUN and any((folder / "checkpoints").glob("step-*")):
        raise ValueError(
            f"{folder} holds checkpoints, and no {RUN} that says of which recipe: restore it, or choose another folder"
        )
    origin = {} if parent is None else {"parent": dict(parent)}
    write_json(folder / name, {"format": FORMAT, **origin, "recipe": expected, "versions": versions()})


def claim_for(folder: Path, source: str) -> None:
    """Claim a folder for the measurements of one source, once nothing is left to refuse them; see `check_claim`."""
    check_claim(folder, source)
    if (folder / SOURCE).exists():
        remove_leftovers((folder / SOURCE).parent)  # of the process that claimed it, if that was killed then
    else:
        write_json(folder / SOURCE, {"source": source})


def check_claim(folder: Path, source: str) -> None:
    """Refuse a folder whose measurements are not of this source, which they must never overwrite.

    Args:
        folder: of the measurements.
        source: its identity, as `Source.identity`.

    Raises:
        ValueError: it holds measurements of another source, or a run, whose own they are.
    """
    path, other = folder / SOURCE, source
    if path.exists():
        other = read_json(path, "delete it if the measurements in this folder are of the same checkpoints")["source"]
    elif (folder / RUN).exists():
        other = "the run in it"
    elif (folder / ANALYSIS).exists():
        other = read_record(folder).get("series", {}).get("source", source)
    if other != source:
        raise ValueError(
            f"{folder} holds measurements of {other}, not of {source}: choose another folder, with --out. If these are "
            f"the same checkpoints in another place, delete {path}"
        )


@contextlib.contextmanager
def measuring(parts: Path) -> Iterator[None]:
    """Hold the folder of a measurement's parts, rid of those that are damaged: they are measured again.

    Raises:
        BlockingIOError: another process measures there; the message says which.
    """
    with held(parts, "measures"):
        checksums.remove_damaged(parts)
        yield


def read_run(folder: Path, name: str = RUN) -> dict[str, Any]:
    """Read run.json: the recipe as plain data, and the versions that made the run."""
    path = folder / name
    if not path.exists():
        raise FileNotFoundError(f"{folder} is not a run folder: there is no {name} in it")
    again = "run `stagewise report` on the checkpoints again"
    fix = again if name == ANALYSIS else "restore it, or train again in a new folder"
    record = read_json(path, fix)
    form = record.setdefault("format", FORMAT)  # version 0.1 wrote none
    if type(form) is not int or form < 0:
        raise ValueError(f"{path} has the format {form!r}, expected a whole number from 0 to {FORMAT}: restore it")
    if form > FORMAT:
        versions = record.get("versions")
        writer = (versions.get("stagewise") if isinstance(versions, dict) else None) or "of its time"
        newer = f"{path} has format {form}, and this version reads up to {FORMAT}"
        raise ValueError(f"{newer}: use stagewise {writer}, which wrote it, or a later one")
    if not isinstance(record.get("recipe"), dict):
        raise ValueError(f"{path} records no recipe, so it was not written by this library: {fix}")
    return record


def is_recorded(folder: Path) -> bool:
    """Whether a folder's table was written by the training itself: see `recording.record`."""
    return (folder / ANALYSIS).exists() and bool(read_json(folder / ANALYSIS).get("recorded"))


def read_record(folder: Path) -> dict[str, Any]:
    """Read the record of the measured run: run.json, or the analysis.json of checkpoints trained elsewhere."""
    is_elsewhere = not (folder / RUN).exists() and (folder / ANALYSIS).exists()
    return read_run(folder, ANALYSIS if is_elsewhere else RUN)


def read_checkpoint(folder: Path, step: int) -> Mapping[str, Any]:
    """Read the weights of a step."""
    from stagewise.checkpoints._weight_files import load_file

    path = checkpoint_file(folder, step)
    fix = f"Restore it, or delete {path.parent} and train again: it gives the same bits"
    weights: Mapping[str, Any] = load_file(path, fix)
    return weights


def read_resume(
    path: Path, fix: str = "Delete it and train again: it starts over, with the same bits"
) -> dict[str, Any]:
    """Read the state from which training resumes, or a replay starts."""
    from stagewise.checkpoints._weight_files import load_file

    state = load_file(path, fix)
    if not isinstance(state, dict) or not isinstance(state.get("step"), int) or "optimiser" not in state:
        raise ValueError(f"{path} holds no state of a training. {fix}")
    return state


def read_plan(folder: Path) -> dict[str, Any]:
    """Read the plan of a run as plain data: its `steps`, the steps to `save`, and more."""
    plan = read_run(folder)["recipe"].get("plan")
    save = plan.get("save") if isinstance(plan, dict) else None
    if not isinstance(plan, dict) or not isinstance(save, list) or not all(map(is_step, [plan.get("steps"), *save])):
        raise ValueError(f"{folder / RUN} records no plan: restore it, or train again in a new folder")
    return plan


def is_finished(folder: Path) -> bool:
    """Whether a run's last checkpoint is there."""
    return checkpoint_file(folder, read_plan(folder)["steps"]).exists()


def saved_steps(folder: Path) -> list[int]:
    """Return the steps whose weights lie in a run folder, in order."""
    return steps_in(checkpoint_file(folder, 0).parent, ".safetensors")


def steps_in(folder: Path, suffix: str) -> list[int]:
    """Return the steps that files of a folder are named by, in order."""
    names = (re.fullmatch(r"step-(\d+)", file.stem) for file in folder.glob(f"step-*{suffix}"))
    return sorted(int(match[1]) for match in names if match)


def unfinished(folder: Path) -> str | None:
    """Say how far a run has come that is not finished; None of one that is, and of a folder without a run's record."""
    if not (folder / RUN).exists() or is_finished(folder):
        return None
    steps = saved_steps(folder)
    return f"the run has come to step {steps[-1]} of {read_plan(folder)['steps']}" if steps else None


def read_table(folder: str | Path, *, maps: bool = False) -> pd.DataFrame:
    """Read a run folder's table of measurements, its maps only if asked for; the errors are those of `table_file`."""
    file = table_file(Path(folder))
    columns = [name for name in file.names if maps or name != "map"]
    return plain_names(pd.read_parquet(file.path, columns=columns), ARRAYS)


def table_file(folder: Path) -> TableFile:
    """Return a run folder's table of measurements, to read parts of it.

    Raises:
        FileNotFoundError: it has not been measured yet.
    """
    file = TableFile(folder / TABLE)
    measure = f"`{shlex.join(['stagewise', 'measure', str(folder)])}`"
    if not file.path.exists():
        fix = f"measure the run first, with {measure}"
        if not folder.is_dir():
            fix = f"there is no folder {folder} here. A repository is measured first, with {measure}"
        elif any(folder.glob("*/settings.json")):
            fix = "rows lie there for `measure` to resume from; `analyse(..., folder=...)` writes what a report reads"
        raise FileNotFoundError(f"{file.path} is not there: {fix}")
    with parquet_faults(file.path, f"measure it anew, with {measure}"):
        _ = file.names  # read here, where faults are named
    return file


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide the numbers."""
    packages = ("stagewise", "transformer-lens", "torch", "numpy", "scipy", "scikit-learn", "pandas")
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}
