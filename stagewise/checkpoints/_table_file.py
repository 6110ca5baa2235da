"""A table on disk, of which only the probes, steps and arrays that somebody needs are read."""

import dataclasses
import functools
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from stagewise.checkpoints._arrays_aside import StoredArray, nameless_file, put_aside
from stagewise.plain_text import plain_names
from stagewise.table import ARRAYS, KEYS, check_columns, conformed

PLACE = ["group", "start", "stop"]
"""Where rows lie in a file: their row group, the first of them in it, and the first behind them."""

PROVENANCE = b"stagewise.provenance"
"""Key in the metadata of a file of what decided its measurement: see `measurement.provenance`."""

SMALL = 50_000
"""Rows of a table that is read once: without its arrays it takes ten megabytes."""


@dataclasses.dataclass(frozen=True)
class TableFile:
    """A Parquet file of a table. It is read a row group at a time, as a checkpoint is one, so that what is not asked
    for takes no memory.

    Args:
        path: of the file, which exists.
    """

    path: Path

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
        return self._stretches.drop(columns=PLACE).drop_duplicates(KEYS, ignore_index=True)

    def read(
        self,
        names: Collection[str] | None = None,
        steps: Collection[int] | None = None,
        arrays: Collection[str] = (),
        *,
        aside: bool = False,
    ) -> pd.DataFrame:
        """Return rows in their order.

        Args:
            names: probes, as in "Loss", and quantities, as in "AttentionTo.mass"; None for all.
            steps: the checkpoints; None for all.
            arrays: of `table.ARRAYS`, those to read too.
            aside: whether arrays stay in a temporary file, each read where it is used: see `arrays_aside`.
        """
        if not arrays and len(self) <= SMALL:
            rows = chosen(self._numbers, names, steps).reset_index(drop=True)
            return rows.drop(columns=[name for name in rows if name not in KEYS and rows[name].isna().all()])
        return self._read(chosen(self._stretches, names, steps), arrays, aside)

    @functools.cached_property
    def _numbers(self) -> pd.DataFrame:
        return self._read(self._stretches, (), aside=False)

    def _read(self, asked: pd.DataFrame, arrays: Collection[str], aside: bool) -> pd.DataFrame:
        columns, groups = [name for name in self.names if name not in ARRAYS or name in arrays], list[pa.Table]()
        lists = [name for name in columns if name in ARRAYS and pa.types.is_list(self._schema.field(name).type)]
        temporary = nameless_file() if aside else None
        stored = {name: list[StoredArray | None]() for name in lists if temporary is not None}
        with self._open() as file:
            for number, stretches in asked[PLACE].groupby("group"):
                rows = _rows(file.read_row_group(number, columns, use_threads=False), stretches)
                if temporary is not None:
                    for name, entries in stored.items():
                        entries += put_aside(rows[name].combine_chunks(), temporary)
                    rows = rows.drop_columns([*stored])
                groups.append(rows)
        frame = self._frame(groups, [name for name in columns if name not in stored])
        return _with_stored(frame, columns, stored)

    @functools.cached_property
    def _stretches(self) -> pd.DataFrame:
        """The first of each stretch of rows with the same keys, and its place in the file."""
        columns, groups, places = [name for name in self.names if name not in ARRAYS], [], []
        with self._open() as file:
            for number in range(file.num_row_groups):
                group = file.read_row_group(number, columns, use_threads=False)
                starts = _starts(group)
                groups.append(group.take(starts))
                places.append(np.stack([np.full_like(starts, number), starts, np.append(starts[1:], len(group))], 1))
        frame = self._frame(groups, columns)
        frame[PLACE] = np.concatenate(places) if places else np.empty((0, 3), int)
        return frame

    @functools.cached_property
    def _schema(self) -> pa.Schema:
        schema = pq.read_schema(self.path)
        check_columns(schema.names, str(self.path))
        return schema

    def _open(self) -> pq.ParquetFile:
        """Return the file, of which text is read as codes."""
        text = [
            field.name
            for field in self._schema
            if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        ]
        return pq.ParquetFile(self.path, read_dictionary=text)

    def _frame(self, groups: list[pa.Table], columns: list[str]) -> pd.DataFrame:
        """Return the rows of row groups in a table's types, without columns of which all is missing.

        The list is emptied, so that each column is let go of once it is converted: both at once are twice the memory.
        """
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


def _with_stored(
    frame: pd.DataFrame, columns: Sequence[str], stored: Mapping[str, Sequence[StoredArray | None]]
) -> pd.DataFrame:
    """Return a frame with the columns of stored arrays in their places, but for those of which all is missing."""
    for name, arrays in stored.items():
        if all(each is None for each in arrays):
            continue
        entries = np.empty(len(arrays), dtype=object)
        for row, each in enumerate(arrays):  # all at once NumPy would read them
            entries[row] = each
        before = set(columns[: columns.index(name)])
        frame.insert(sum(other in before for other in frame), name, entries)
    return frame


def chosen(rows: pd.DataFrame, names: Collection[str] | None, steps: Collection[int] | None) -> pd.DataFrame:
    """Return the rows of a frame with a table's keys that `TableFile.read` would, by the same names and steps."""
    if names is not None:
        rows = rows[rows["probe"].isin(names) | (rows["probe"] + "." + rows["quantity"]).isin(names)]
    return rows if steps is None else rows[rows["step"].isin(steps)]


def _starts(group: pa.Table) -> np.ndarray:
    """Return the rows that differ from the one before in a key."""
    changes = np.zeros(len(group), dtype=bool)
    if not len(group):
        return np.flatnonzero(changes)
    changes[0] = True
    for name in KEYS:
        column = group[name].combine_chunks()
        codes = (column.indices if pa.types.is_dictionary(column.type) else column).to_numpy(zero_copy_only=False)
        changes[1:] |= codes[1:] != codes[:-1]
    return np.flatnonzero(changes)


def _rows(group: pa.Table, stretches: pd.DataFrame) -> pa.Table:
    bounds = zip(stretches["start"], stretches["stop"], strict=True)
    return group.take(np.concatenate([np.arange(start, stop) for start, stop in bounds]))
