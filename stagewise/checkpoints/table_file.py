"""A table on disk, of which only the probes, steps and arrays that somebody needs are read."""

import dataclasses
import functools
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stagewise.table import ARRAYS, KEYS, check_columns, conformed


@dataclasses.dataclass(frozen=True)
class TableFile:
    """A Parquet file of a table. It is read a row group at a time, as a checkpoint is one, so that what is not asked
    for takes no memory.

    Args:
        path: of the file, which exists.
    """

    path: Path

    @property
    def names(self) -> list[str]:
        """Its columns."""
        return list(self._schema.names)

    @functools.cached_property
    def outline(self) -> pd.DataFrame:
        """The first row of each quantity at each checkpoint: what was measured, of whom, when, on which axes."""
        columns = [name for name in self.names if name not in ARRAYS]
        groups = [group.take(_starts(group)) for group in self._groups(columns, KEYS)]
        return self._frame(groups, columns).drop_duplicates(KEYS, ignore_index=True)

    def read(
        self, names: Collection[str] | None = None, steps: Collection[int] | None = None, arrays: Collection[str] = ()
    ) -> pd.DataFrame:
        """Return rows in their order.

        Args:
            names: probes, as in "Loss", and quantities, as in "AttentionTo.mass"; None for all.
            steps: the checkpoints; None for all.
            arrays: of `table.ARRAYS`, those to read too.
        """
        columns = [name for name in self.names if name not in ARRAYS or name in arrays]
        probes, quantities = self.outline["probe"], self.outline["probe"] + "." + self.outline["quantity"]
        if names is not None and not (probes.isin(names) | quantities.isin(names)).any():
            return self._frame([], columns)
        groups = [_chosen(group, names, steps) for group in self._groups(columns, KEYS[2:], steps)]
        return self._frame(groups, columns)

    @functools.cached_property
    def _schema(self) -> pa.Schema:
        schema = pq.read_schema(self.path)
        check_columns(schema.names, str(self.path))
        return schema

    def _groups(
        self, columns: list[str], coded: Collection[str], steps: Collection[int] | None = None
    ) -> Iterator[pa.Table]:
        """Yield the row groups, of steps those that may hold one; some columns as codes of their text."""
        with pq.ParquetFile(self.path, read_dictionary=[name for name in coded if name != "step"]) as file:
            step = file.schema_arrow.get_field_index("step")
            for number in range(file.num_row_groups):
                known = file.metadata.row_group(number).column(step).statistics
                if steps is None or known is None or any(known.min <= each <= known.max for each in steps):
                    yield file.read_row_group(number, columns, use_threads=False)

    def _frame(self, groups: list[pa.Table], columns: list[str]) -> pd.DataFrame:
        """Return the rows of row groups in a table's types, without columns of which all is missing."""
        table = pa.concat_tables(groups) if groups else self._schema.empty_table().select(columns)
        present = [name for name in columns if name in KEYS or table[name].null_count < len(table)]
        frame = conformed(table.select(present).to_pandas(ignore_metadata=True), present)
        pa.default_memory_pool().release_unused()  # it would keep what it took for the row groups
        frame.attrs = (self._schema.pandas_metadata or {}).get("attributes", {})
        return frame


def _starts(group: pa.Table) -> np.ndarray:
    """Return the rows that differ from the one before in a key."""
    changes = np.zeros(len(group), dtype=bool)
    changes[:1] = True
    for name in KEYS if len(group) else ():
        column = group[name].combine_chunks()
        codes = (column.indices if pa.types.is_dictionary(column.type) else column).to_numpy(zero_copy_only=False)
        changes[1:] |= codes[1:] != codes[:-1]
    return np.flatnonzero(changes)


def _chosen(group: pa.Table, names: Collection[str] | None, steps: Collection[int] | None) -> pa.Table:
    if steps is not None:
        group = group.filter(pc.is_in(group["step"], pa.array(sorted(steps), pa.int64())))
    if names is None:
        return group
    masks = []
    for name in names:
        probe, _, quantity = name.partition(".")
        mask = pc.equal(group["probe"], probe)
        masks.append(pc.and_(mask, pc.equal(group["quantity"], quantity)) if quantity else mask)
    return group.filter(functools.reduce(pc.or_, masks, pa.array([False] * len(group))))
