"""Files of data: the reader of JSON and of Parquet, with an error for each fault; a table, of which parts are read."""

import contextlib
import dataclasses
import functools
import json
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from stagewise.checkpoints import _checksums as checksums
from stagewise.checkpoints._digest import bytes_of, check_file
from stagewise.config import line_of
from stagewise.fields import MEMORY
from stagewise.plain_text import plain_names
from stagewise.table import ARRAYS, KEYS, check_columns, conformed

PROVENANCE = b"stagewise.provenance"
"""Key in the metadata of a file of what decided its measurement: see `measurement.provenance`."""

SMALL = 50_000
"""Rows of a table that is read once: without its arrays it takes ten megabytes."""

LARGEST = 2**28
"""Bytes of a JSON file that is read; a tokenizer's and a long training's take a tenth of it."""

_ABSENT = -1
"""Numbers of a row without an array."""

KINDS = {list: "a list", str: "a text", bool: "a boolean", int: "a number", float: "a number"}


@dataclasses.dataclass(frozen=True)
class TableFile:
    """A Parquet file of a table, read by row groups (checkpoints): what is not asked for takes no memory."""

    path: Path

    @property
    def folder(self) -> Path:
        """The run folder that it lies in."""
        return self.path.parents[1]

    def __len__(self) -> int:
        return int(pq.read_metadata(self.path).num_rows)

    @property
    def names(self) -> list[str]:
        """Its columns."""
        return list(self._schema.names)

    @property
    def provenance(self) -> dict[str, Any]:
        """The settings of the measurement; empty for a table that another program wrote."""
        known: dict[str, Any] = json.loads((self._schema.metadata or {}).get(PROVENANCE, b"{}"))
        return known

    @functools.cached_property
    def outline(self) -> pd.DataFrame:
        """The first row of each quantity at each checkpoint: what was measured, of whom, when, on which axes."""
        return self._runs.first.drop_duplicates(KEYS, ignore_index=True)

    def read(
        self,
        names: Collection[str] | None = None,
        steps: Collection[int] | None = None,
        arrays: Collection[str] = (),
        *,
        aside: bool = False,
    ) -> pd.DataFrame:
        """Return rows in their order. Probes are named as in "Loss", quantities as in "AttentionTo.mass"; arrays that
        are put `aside` stay in a temporary file.
        """
        if not arrays and len(self) <= SMALL:
            rows = chosen(self._numbers, names, steps).reset_index(drop=True)
            return rows.drop(columns=[name for name in rows if name not in KEYS and rows[name].isna().all()])
        return self._read(names, steps, arrays, aside)

    @functools.cached_property
    def _numbers(self) -> pd.DataFrame:
        return self._read(None, None, (), aside=False)

    @functools.cached_property
    def _runs(self) -> "_Runs":
        columns, groups = [name for name in self.names if name not in ARRAYS], list[pa.Table]()
        lengths, filled = list[np.ndarray](), [np.empty((0, len(columns)), bool)]
        for group in self._groups(columns):
            starts = _starts(group)
            groups.append(group.take(starts))
            lengths.append(np.diff(starts, append=len(group)))
            values = [np.logical_or.reduceat(group[name].is_valid().to_numpy(), starts) for name in columns]
            filled.append(np.stack(values, axis=-1))
        return _Runs(self._frame(groups, columns), lengths, pd.DataFrame(np.concatenate(filled), columns=columns))

    def _read(
        self, names: Collection[str] | None, steps: Collection[int] | None, arrays: Collection[str], aside: bool
    ) -> pd.DataFrame:
        columns = [name for name in self.names if name not in ARRAYS or name in arrays]
        groups, asked = list[pa.Table](), None
        if names is not None or steps is not None:
            asked = self._runs.first.index.isin(chosen(self._runs.first, names, steps).index)
            filled = self._runs.filled[asked].any()
            columns = [name for name in columns if name in KEYS or filled.get(name, True)]
        kinds = {name: self._schema.field(name).type for name in columns if name in ARRAYS and aside}
        lists = {name: kind for name, kind in kinds.items() if pa.types.is_list(kind)}
        lengths = {name: list[np.ndarray]() for name in lists}
        with contextlib.ExitStack() as stack:
            files = {name: stack.enter_context(tempfile.TemporaryFile()) for name in lists}
            for group in self._groups(columns, asked):
                for name, file in files.items():
                    column = group[name].combine_chunks()
                    lengths[name].append(column.value_lengths().fill_null(_ABSENT).to_numpy())
                    file.write(column.flatten().to_numpy(zero_copy_only=False).tobytes())
                groups.append(group.drop_columns([*files]))
            frame = self._frame(groups, [name for name in columns if name not in files])
            for name, file in files.items():
                if any((each != _ABSENT).any() for each in lengths[name]):
                    frame[name] = _arrays_in(file, lengths[name], lists[name].value_type.to_pandas_dtype())
        return frame[[name for name in columns if name in frame]]

    def _groups(self, columns: list[str], asked: np.ndarray | None = None) -> Iterator[pa.Table]:
        """Yield the rows of the runs that are asked for, of all by default, a row group at a time; text is codes."""
        kinds = {field.name: field.type for field in self._schema}
        text = [name for name, kind in kinds.items() if pa.types.is_string(kind) or pa.types.is_large_string(kind)]
        with pq.ParquetFile(self.path, read_dictionary=text) as file:
            if asked is None:
                yield from (file.read_row_group(i, columns, use_threads=False) for i in range(file.num_row_groups))
                return
            ends = np.cumsum([0, *map(len, self._runs.lengths)])
            for number, lengths in enumerate(self._runs.lengths):
                if (here := asked[ends[number] : ends[number + 1]]).any():
                    group = file.read_row_group(number, columns, use_threads=False)
                    yield group if here.all() else group.take(np.flatnonzero(np.repeat(here, lengths)))

    @functools.cached_property
    def _schema(self) -> pa.Schema:
        schema = pq.read_schema(self.path)
        check_columns(schema.names, str(self.path))
        return schema

    def _frame(self, groups: list[pa.Table], columns: list[str]) -> pd.DataFrame:
        """Return the rows of row groups without empty columns; the list is emptied, as both take twice the memory."""
        table = pa.concat_tables(groups) if groups else self._schema.empty_table().select(columns)
        groups.clear()
        present = [name for name in columns if name in KEYS or table[name].null_count < len(table)]
        table = table.select(present)
        raw = table.to_pandas(ignore_metadata=True, split_blocks=True, self_destruct=True)
        del table  # nothing may read it any more
        raw = plain_names(raw, ARRAYS)
        frame = conformed(raw, [*raw.columns])
        pa.default_memory_pool().release_unused()  # it would keep what it took for the row groups
        frame.attrs = (self._schema.pandas_metadata or {}).get("attributes", {})
        return frame


class _Runs(NamedTuple):
    """Rows of a quantity that follow one another, in order: the first row of each run, the numbers of their rows by row
    group, and whether each column has a value in them.
    """

    first: pd.DataFrame
    lengths: list[np.ndarray]
    filled: pd.DataFrame


def chosen(rows: pd.DataFrame, names: Collection[str] | None, steps: Collection[int] | None) -> pd.DataFrame:
    """Return the rows of a frame with a table's keys that `TableFile.read` would, by the same names and steps."""
    if names is not None:
        rows = rows[rows["probe"].isin(names) | (rows["probe"] + "." + rows["quantity"]).isin(names)]
    return rows if steps is None else rows[rows["step"].isin(steps)]


def _starts(group: pa.Table) -> np.ndarray:
    """Return the rows that differ from the one before in a key, by the number of its value; -1 where it has none."""
    encoded = [group[name].combine_chunks().dictionary_encode() for name in KEYS]
    codes = np.stack([each.indices.fill_null(-1).to_numpy() for each in encoded])
    return np.flatnonzero(np.append(True, (codes[:, 1:] != codes[:, :-1]).any(axis=0))[: len(group)])


def _arrays_in(file: IO[bytes], lengths: Sequence[np.ndarray], kind: Any) -> np.ndarray:
    """Return a view of each row's array in a file, mapped as long as one is held; None where it has none."""
    sizes = np.concatenate([np.empty(0, "i8"), *lengths])
    # What is empty cannot be mapped.
    cells = np.asarray(np.memmap(file, kind, "c") if file.tell() else np.empty(0, kind))
    views = np.full(len(sizes), None, dtype=object)
    rows = np.flatnonzero(sizes != _ABSENT)
    stops = sizes[rows].cumsum()
    for row, start, stop in zip(rows, stops - sizes[rows], stops, strict=True):
        views[row] = cells[start:stop]
    return views


def read_json(path: Path, fix: str = "restore it", *, name: str = "") -> dict[str, Any]:
    """Read a file that holds a JSON object; the error of another one names its fault, and ends in the fix."""
    what = name or str(path)
    try:
        if (size := path.stat().st_size) > LARGEST:
            raise ValueError(f"{what} is no file to read: it has {size} bytes, expected {LARGEST} at most: {fix}")
        checksums.check(path, fix)
        text = bytes_of(path)
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
        check_file(path)
        checksums.check(path, fix)
        about = pq.read_metadata(path)
        if (size := 8 * about.num_rows * about.num_columns) > MEMORY:
            raise ValueError(f"{path} is no table to read: its {path.stat().st_size} bytes unpack to {size}: {fix}")
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is not there: {fix}") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError, json.JSONDecodeError) as reason:
        raise ValueError(f"{path} is truncated or damaged ({line_of(reason)}): {fix}") from reason
