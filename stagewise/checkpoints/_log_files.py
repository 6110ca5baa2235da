"""A file of curves: columns, arrays of NumPy, a text that a trainer prints, a tracker's database; others are named."""

import contextlib
import json
import re
import sqlite3
import warnings
import zipfile
import zlib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from stagewise.checkpoints._digest import check_file
from stagewise.checkpoints._log_columns import MARKDOWN, from_text, is_table, read_json_log, read_separated
from stagewise.checkpoints._log_layout import flat, place
from stagewise.checkpoints._log_lines import STEPS, read_lines, text_of
from stagewise.fields import MEMORY

FILES = (".csv", ".tsv", ".parquet", ".jsonl", ".json")
"""Endings of files of curves."""


def is_arrays(path: Path) -> bool:
    """Whether a file is an archive of NumPy's with an array of steps among others, or a damaged one."""
    if path.suffix != ".npz" or not path.is_file():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.removesuffix(".npy").lower() in STEPS for name in archive.namelist())
    except zipfile.BadZipFile:
        with path.open("rb") as file:
            return file.read(2) == b"PK"  # an archive, cut off or whole


def read_arrays(path: Path) -> pd.DataFrame:
    """Return arrays of a value a step as columns, of heads or layers by heads a step as a column a head.

    Raises:
        ValueError: an array of Python objects, which may hold code; no array has a row a step; or it is damaged.
    """
    check_file(path, MEMORY)
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as reason:
        raise ValueError(f"{path} is cut off or damaged: {reason}") from reason
    length = len(next(array for name, array in arrays.items() if name.lower() in STEPS))
    curves = {name: array for name, array in arrays.items() if array.ndim in (1, 2, 3) and len(array) == length}
    if left := [name for name in arrays if name not in curves]:
        warnings.warn(f"{path.name}: left out, as they have no row a step: {', '.join(left)}", stacklevel=4)
    return pd.DataFrame(
        {
            f"{name}/{place(at)}" if at else name: array[(slice(None), *at)]
            for name, array in curves.items()
            for at in np.ndindex(*array.shape[1:])
        }
    )


def read_file(path: Path) -> pd.DataFrame:
    """Return the columns of a file of curves."""
    check_file(path, MEMORY)
    if what := unread(path):
        raise ValueError(f"{path} is a log {what}")
    try:
        if path.suffix == ".parquet":
            return pd.read_parquet(path)
        text = text_of(path)
        if "|" in text and (tables := MARKDOWN.findall(text)):
            longest = max(tables, key=lambda table: len(table[1]))
            text = re.sub(r"(?m)^ *\|| *\| *$", "", "".join(longest))  # columns that bars separate
        if path.suffix in (".jsonl", ".json"):
            return read_json_log(text, lines=path.suffix == ".jsonl")
        if path.suffix in FILES or is_table(text):
            return read_separated(text)
    except (ValueError, TypeError, ArithmeticError, RuntimeError, OSError) as reason:  # pandas', pyarrow's and json's
        raise ValueError(f"{path} holds no columns of curves that can be read: {reason}") from reason
    return read_lines(path)


BEGINNING = b"SQLite format 3\0"

QUERIES = {
    "MLflow": """SELECT runs.run_uuid, runs.name, step, key, CASE WHEN is_nan THEN 'nan' WHEN value > 1e308 THEN 'inf'
        WHEN value < -1e308 THEN '-inf' ELSE value END
        FROM metrics JOIN runs ON runs.run_uuid = metrics.run_uuid
        WHERE lifecycle_stage = 'active' ORDER BY metrics.rowid""",
    "trackio": "SELECT run_id, run_name, step, NULL, metrics FROM metrics ORDER BY id",
}
"""Tool -> its metrics as run, name of the run, step, name, value; without a name the value is JSON of several. MLflow
writes infinity as the largest number that a database holds.
"""

UNREAD = {
    "*.wandb": "of Weights & Biases: `wandb leet inspect --json {} > run.jsonl` writes a log that is read",
    "*.swanlab": "of SwanLab",
    "run_operations.sqlite3": "of Neptune",
    "messages.json": "of Comet",
    "run_metadata_strings": "of Aim",
    "results_*.json": "of an evaluation harness, one checkpoint each",
}
"""Names of other tools' files -> whose they are, and what makes a log of them."""

READ = ("mlflow.db", "*.db", "plots/metrics/*.tsv", "plots/metrics/*/*.tsv", "metrics.json")
"""Names of logs in the folders of tools."""

DEPTH = 3
"""Folders from which on such files are not looked for."""

AS_COLUMNS = "save its columns of steps and values as .csv or .parquet"


def is_database(path: Path) -> bool:
    """Whether a file is a database of SQLite."""
    with contextlib.suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                return file.read(len(BEGINNING)) == BEGINNING
    return False


def read_database(path: Path) -> pd.DataFrame:
    """Return the curves of a tracker's database, a row a value with `run` and `metric`, or a row a step with `run`."""
    check_file(path, MEMORY)
    if what := unread(path):
        raise ValueError(f"{path} is {what}")
    # A database that nobody writes has no log beside it, and is read where nothing can be written.
    mode = "mode=ro" if Path(f"{path}-wal").exists() else "immutable=1"
    with contextlib.closing(sqlite3.connect(f"file:{quote(str(path.resolve()))}?{mode}", uri=True)) as database:
        try:
            rows = _metrics(database)
        except sqlite3.DatabaseError as reason:
            raise ValueError(f"{path} is cut off or damaged: {reason}") from reason
    if rows is None:
        raise ValueError(f"{path} is a database without the metrics of {' or '.join(QUERIES)}: {AS_COLUMNS}")
    runs = {run: name for run, name, *_ in rows}
    names = [*runs.values()]
    labels = {run: name if names.count(name) == 1 else f"{name} {run[:8]}" for run, name in runs.items()}
    values = [{"metric": key, "value": value} if key else flat(json.loads(value)) for *_, key, value in rows]
    frame = pd.DataFrame([{"run": labels[run], "step": step} for run, _, step, *_ in rows])
    return frame.join(pd.DataFrame(values)).apply(from_text)


def _metrics(database: sqlite3.Connection) -> list[Any] | None:
    for query in QUERIES.values():
        with contextlib.suppress(sqlite3.OperationalError):  # it has no such table
            return database.execute(query).fetchall()
    return None


def refuse(folder: Path) -> pd.DataFrame:
    """Say what log lies in a folder, and what to give."""
    raise ValueError(f"{folder} {inside(folder)}")


def unread(place: Path) -> str:
    """Return in words whose log a file is, or lies in a folder, in a form that is not read; empty where none is."""
    for pattern, whose in UNREAD.items():
        if path := _first(place, pattern):
            return whose.format(path) if "{}" in whose else f"{whose}: {AS_COLUMNS}"
    return ""


def inside(folder: Path) -> str:
    """Return what log lies in a folder, in words; empty where none does."""
    if what := unread(folder):
        return f"holds a log {what}"
    path = next((path for pattern in READ for path in sorted(folder.glob(pattern))), None)
    return f"holds a log: give {path}" if path else ""


def _first(place: Path, pattern: str) -> Path | None:
    if place.is_file():
        return place if fnmatch(place.name, pattern) else None
    return next((path for depth in range(DEPTH) for path in sorted(place.glob("*/" * depth + pattern))), None)
