"""One table from parts that were written a checkpoint at a time, without holding them all in memory."""

import contextlib
import itertools
import json
import mmap
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stagewise.checkpoints._data_files import parquet_faults
from stagewise.checkpoints._table_file import PROVENANCE, TableFile
from stagewise.table import ARRAYS, Quantities, conformed, declare, in_order, type_of

_MAPPED_ROWS = 20_000
"""A table of more rows is mapped from a file; a smaller one fits into a few megabytes."""

PASSES = "edited passes"
"""Key in that of a checkpoint's rows: the way of its edited passes, as in `_checkpoint._Readings`."""

ANEW = "delete it, and the same call measures its checkpoint again"
"""The remedy for a damaged part."""

_AT_ONCE = 2**20
"""Bytes that are read together: a frame costs milliseconds however few its rows are."""

_CELLS = pa.list_(pa.float32())
"""Type of a column of arrays."""

_ABSENT = -1
"""Cells of a row without an array."""


def join(parts: Sequence[Path], mapped_rows: int = _MAPPED_ROWS) -> pd.DataFrame:
    """Return the rows of all parts as one table. The columns of a large table lie in temporary files without a name,
    which are freed with the table: the system reads pages on access, so that until then 200 checkpoints cost no more
    memory than 12, but for 8 bytes a row.
    """
    columns = _columns(parts)
    if sum(pq.read_metadata(part).num_rows for part in parts) > mapped_rows:
        return _mapped(parts, columns)
    return _together(parts, columns)


def join_into(
    parts: Sequence[Path],
    path: Path,
    quantities: Quantities | None = None,
    provenance: Mapping[str, object] | None = None,
) -> None:
    """Write the rows of all parts into one Parquet file, few at a time, with their provenance in its metadata."""
    columns = _columns(parts)
    empty = conformed(pd.DataFrame(columns=columns), columns)
    declare(empty, quantities or {})  # pandas keeps a frame's attrs in the schema, and gives them back
    schema = pa.Schema.from_pandas(empty, preserve_index=False)
    for name in set(ARRAYS) & set(columns):
        schema = schema.set(schema.get_field_index(name), pa.field(name, _CELLS))
    schema = schema.with_metadata({**(schema.metadata or {}), PROVENANCE: json.dumps(dict(provenance or {}))})
    with pq.ParquetWriter(path, schema) as writer:
        for frame in _frames(parts, columns):
            writer.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False))


def rows_of(parts: Sequence[Path], probe: str) -> pd.DataFrame:
    """Return the rows of one probe from all parts."""
    return _together(parts, _columns(parts), probe)


def rows_in(part: Path) -> pd.DataFrame:
    """Return the rows of one part."""
    return _together([part], _columns([part]))


def passes_of(parts: Sequence[Path]) -> str:
    """Say by which way the edited passes of all parts ran, by how many each where they differ; empty without any."""
    ways = Counter(way for part in parts if (way := TableFile(part).provenance.get(PASSES)))
    if len(ways) < 2:
        return "".join(ways)
    return ", ".join(f"{way} at {number} of {ways.total()} checkpoints" for way, number in ways.items())


def _together(parts: Sequence[Path], columns: Sequence[str], probe: str | None = None) -> pd.DataFrame:
    """Return the rows of all parts, or those of one probe, made into a frame once: a frame a part takes four times."""
    tables = []
    for part in parts:
        table = pq.ParquetFile(part).read()
        tables.append(table if probe is None else table.filter(pc.equal(table["probe"], probe)))
    return conformed(pa.concat_tables(tables, promote_options="permissive").to_pandas(), columns)


def _columns(parts: Sequence[Path]) -> list[str]:
    names: dict[str, None] = {}
    for part in parts:
        with parquet_faults(part, ANEW):
            names |= dict.fromkeys(pq.read_schema(part).names)
    return in_order(names)


def _frames(parts: Sequence[Path], columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    """Yield the rows of all parts in order, those of small ones together."""
    # Numbers, and arrays as in the file.
    sizes = [8 * len(columns) * pq.read_metadata(part).num_rows + part.stat().st_size for part in parts]
    starts = np.cumsum([0, *sizes])[:-1]
    for _, group in itertools.groupby(zip(starts // _AT_ONCE, parts, strict=True), key=lambda each: each[0]):
        yield _together([part for _, part in group], columns)


def _mapped(parts: Sequence[Path], columns: Sequence[str]) -> pd.DataFrame:
    """Write all rows into files and map them: pandas would copy the pieces of Arrow's columns into memory."""
    kinds = _kinds(columns)
    with contextlib.ExitStack() as stack:
        file, *files = (stack.enter_context(tempfile.TemporaryFile()) for _ in ("text", *kinds))
        _write(_frames(parts, columns), file, dict(zip(kinds, files, strict=True)))
        numbers = {name: _numbers_in(each, kind) for (name, kind), each in zip(kinds.items(), files, strict=True)}
        file.flush()
        text = pa.ipc.open_stream(pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))).read_all()
    return pd.DataFrame({name: _column(name, text, numbers) for name in columns}, copy=False)


def _kinds(columns: Sequence[str]) -> dict[str, str]:
    """Return the type of each array of numbers. A column of whole numbers has a byte a row that tells where they are
    missing; one of arrays has the cells of all its rows, and their number in each.
    """
    arrays = [name for name in columns if name in ARRAYS]
    values = {name: "f8" if type_of(name) == "float64" else "i8" for name in columns if _is_number(name)}
    lengths, cells = dict.fromkeys(map(_length, arrays), "i8"), dict.fromkeys(arrays, "f4")
    return values | lengths | cells | {_missing(name): "?" for name in columns if type_of(name) == "Int64"}


def _is_number(name: str) -> bool:
    return type_of(name) not in ("str", "string", "object")


def _missing(name: str) -> str:
    return f"{name}: missing"


def _length(name: str) -> str:
    return f"{name}: cells of a row"


def _write(frames: Iterator[pd.DataFrame], file: IO[bytes], files: Mapping[str, IO[bytes]]) -> None:
    """Write frame after frame, the numbers of each column into a file of their own."""
    with contextlib.ExitStack() as stack:
        stream = None
        for frame in frames:
            names = [name for name in map(str, frame) if name not in ARRAYS and not _is_number(name)]
            text = pa.table({name: pa.array(frame[name], pa.large_string()) for name in names})
            stream = stream or stack.enter_context(pa.ipc.new_stream(file, text.schema))
            stream.write_table(text)
            for name, array in _numbers(frame):
                files[name].write(array.tobytes())


def _numbers(frame: pd.DataFrame) -> Iterator[tuple[str, np.ndarray]]:
    """Return the numbers of a frame, by the names of `_kinds`."""
    for name in map(str, frame):
        if name in ARRAYS:
            arrays = frame[name].dropna()
            yield _length(name), arrays.map(len).reindex(frame.index, fill_value=_ABSENT).to_numpy("i8")
            yield name, np.concatenate([np.empty(0, "f4"), *arrays]).astype("f4")
        elif type_of(name) == "Int64":
            yield _missing(name), frame[name].isna().to_numpy()
            yield name, frame[name].to_numpy(dtype="i8", na_value=0)
        elif _is_number(name):
            yield name, frame[name].to_numpy()


def _numbers_in(file: IO[bytes], kind: str) -> np.ndarray:
    """Map a file of numbers; what is empty cannot be mapped."""
    return np.asarray(np.memmap(file, kind, "c")) if file.tell() else np.empty(0, kind)


def _column(name: str, text: pa.Table, numbers: Mapping[str, np.ndarray]) -> Any:
    """Return the type of a column in pandas: nothing of it is read yet, but for the lengths of arrays."""
    if name in ARRAYS:
        return _views(numbers[name], numbers[_length(name)])
    if type_of(name) == "Int64":
        return pd.arrays.IntegerArray(numbers[name], numbers[_missing(name)])
    kind: Any = pd.api.types.pandas_dtype(type_of(name))
    return numbers[name] if _is_number(name) else kind.__from_arrow__(text[name])


def _views(cells: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return a view of each row's array, nan where it has none."""
    views = np.full(len(lengths), np.nan, dtype=object)
    rows = np.flatnonzero(lengths != _ABSENT)
    stops = lengths[rows].cumsum()
    for row, start, stop in zip(rows, stops - lengths[rows], stops, strict=True):
        views[row] = cells[start:stop]
    return views
