"""Parquet files, checked before they are read and named in every error of reading them."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from stagewise.checkpoints import _checksums as checksums
from stagewise.config import line_of
from stagewise.fields import MEMORY
from stagewise.plain_text import plain_names
from stagewise.table import ARRAYS


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
