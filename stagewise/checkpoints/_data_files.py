"""The one reader of JSON and of Parquet files, checked before they are read, with an error for each kind of fault."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from stagewise.checkpoints import _checksums as checksums
from stagewise.config import line_of
from stagewise.fields import MEMORY
from stagewise.plain_text import plain_names
from stagewise.table import ARRAYS

LARGEST = 2**28
"""Bytes of a JSON file that is read; a tokenizer's and a long training's take a tenth of it."""

KINDS = {list: "a list", str: "a text", bool: "a boolean", int: "a number", float: "a number"}


def read_json(path: Path, fix: str = "restore it", *, name: str = "") -> dict[str, Any]:
    """Read a file that holds a JSON object; the error of another one names its fault, and ends in the fix."""
    what = name or str(path)
    try:
        if (size := path.stat().st_size) > LARGEST:
            raise ValueError(f"{what} is no file to read: it has {size} bytes, expected {LARGEST} at most: {fix}")
        checksums.check(path, fix)
        text = path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"{what} is not there: {fix}") from None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as reason:  # which a number of thousands of digits is, too
        raise ValueError(f"{what} is not valid JSON ({reason}): {fix}") from reason
    if not isinstance(value, dict):
        raise ValueError(f"{what} holds {KINDS.get(type(value), 'nothing')}, expected a JSON object: {fix}")
    return value


def read_parquet(path: Path, fix: str) -> pd.DataFrame:
    """Read a Parquet file."""
    with parquet_faults(path, fix):
        return plain_names(pd.read_parquet(path), ARRAYS)


@contextlib.contextmanager
def parquet_faults(path: Path, fix: str) -> Iterator[None]:
    """Check a Parquet file before it is read, and name it in the errors of reading it; see `read_parquet`."""
    try:
        checksums.check(path, fix)
        about = pq.read_metadata(path)
        if (size := 8 * about.num_rows * about.num_columns) > MEMORY:
            raise ValueError(f"{path} is no table to read: its {path.stat().st_size} bytes unpack to {size}: {fix}")
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is not there: {fix}") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError, json.JSONDecodeError) as reason:
        raise ValueError(f"{path} is truncated or damaged ({line_of(reason)}): {fix}") from reason
