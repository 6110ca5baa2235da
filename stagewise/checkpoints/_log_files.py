"""One file of curves: columns as CSV, Parquet or JSON, or the text that a trainer prints."""

from pathlib import Path

import pandas as pd

from stagewise.checkpoints import _log_columns
from stagewise.checkpoints._digest import check_file
from stagewise.checkpoints._log_lines import read_lines, text_of
from stagewise.checkpoints._log_trackers import unread
from stagewise.fields import MEMORY

FILES = (".csv", ".tsv", ".parquet", ".jsonl", ".json")
"""Endings of files of curves."""


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
    except (ValueError, TypeError, ArithmeticError, RuntimeError) as reason:  # pandas', pyarrow's and json's
        raise ValueError(f"{path} holds no columns of curves that can be read: {reason}") from reason
    return read_lines(path)
