"""One file of curves: columns as CSV, Parquet, JSON or arrays of NumPy, or the text that a trainer prints."""

import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pandas as pd

from stagewise.checkpoints import _log_columns
from stagewise.checkpoints._digest import check_file
from stagewise.checkpoints._log_layout import place
from stagewise.checkpoints._log_lines import STEPS, read_lines, text_of
from stagewise.checkpoints._log_trackers import unread
from stagewise.fields import MEMORY

FILES = (".csv", ".tsv", ".parquet", ".jsonl", ".json")
"""Endings of files of curves."""


ZIP = b"PK"
"""The first bytes of an archive, cut off or whole."""


def is_arrays(path: Path) -> bool:
    """Whether a file is an archive of NumPy's with an array of steps among others, or a damaged one."""
    if path.suffix != ".npz" or not path.is_file():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.removesuffix(".npy").lower() in STEPS for name in archive.namelist())
    except zipfile.BadZipFile:
        with path.open("rb") as file:
            return file.read(len(ZIP)) == ZIP


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
        if path.suffix in (".jsonl", ".json"):
            return _log_columns.read_json_log(text, lines=path.suffix == ".jsonl")
        if path.suffix in FILES or _log_columns.is_table(text):
            return _log_columns.read_separated(text)
    except (ValueError, TypeError, ArithmeticError, RuntimeError, OSError) as reason:  # pandas', pyarrow's and json's
        raise ValueError(f"{path} holds no columns of curves that can be read: {reason}") from reason
    return read_lines(path)
