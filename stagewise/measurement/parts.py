"""One table from parts that were written a checkpoint at a time, without holding them all in memory."""

import mmap
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from stagewise.table import Quantities, conformed, declare, in_order, type_of

MAPPED_ROWS = 20_000
"""A table of more rows is mapped from a file; a smaller one fits into a few megabytes."""

RESAMPLES = "resamples"
ALIGNMENT = 64


def join(parts: Sequence[Path], mapped_rows: int = MAPPED_ROWS) -> pd.DataFrame:
    """Return the rows of all parts as one table.

    The columns of a large table lie in a temporary file without a name, which goes with the table: the system reads
    what is looked at, so that until then 200 checkpoints cost no more memory than 12, but for 8 bytes a row.

    Args:
        parts: Parquet files, each with rows of `table.tidy`.
        mapped_rows: a table of at most so many rows is read into memory.
    """
    columns = _columns(parts)
    if sum(pq.read_metadata(part).num_rows for part in parts) > mapped_rows:
        return _mapped(parts, columns)
    return pd.concat(_frames(parts, columns), ignore_index=True)


def join_into(parts: Sequence[Path], path: Path, quantities: Quantities | None = None) -> None:
    """Write the rows of all parts into one Parquet file, a part at a time, with what their numbers are."""
    columns = _columns(parts)
    empty = conformed(pd.DataFrame(columns=columns), columns)
    declare(empty, quantities or {})  # pandas keeps a frame's attrs in the schema, and gives them back
    schema = pa.Schema.from_pandas(empty, preserve_index=False)
    schema = schema.set(schema.get_field_index(RESAMPLES), pa.field(RESAMPLES, pa.list_(pa.float32())))
    with pq.ParquetWriter(path, schema) as writer:
        for frame in _frames(parts, columns):
            writer.write_table(pa.Table.from_pandas(frame, schema, preserve_index=False))


def rows_of(parts: Sequence[Path], probe: str) -> pd.DataFrame:
    """Return the rows of one probe from all parts."""
    return pd.concat(_frames(parts, _columns(parts), [("probe", "==", probe)]), ignore_index=True)


def _columns(parts: Sequence[Path]) -> list[str]:
    return in_order(name for part in parts for name in pq.read_schema(part).names)


def _frames(
    parts: Sequence[Path], columns: Sequence[str], only: list[tuple[str, str, str]] | None = None
) -> Iterator[pd.DataFrame]:
    return (conformed(pd.read_parquet(part, filters=only), columns) for part in parts)


class _Place(NamedTuple):
    """Where an array lies in the file: its type, how many values, and the first one's byte."""

    dtype: str
    size: int
    start: int

    @property
    def end(self) -> int:
        return -(-(self.start + np.dtype(self.dtype).itemsize * self.size) // ALIGNMENT) * ALIGNMENT


def _mapped(parts: Sequence[Path], columns: Sequence[str]) -> pd.DataFrame:
    """Write the columns of numbers whole, one after the other, then those of text, and map them all."""
    text: dict[str, Any] = {
        name: pd.api.types.pandas_dtype(kind) for name in columns if (kind := type_of(name)) in ("str", "string")
    }
    places, end = _layout(parts, [name for name in columns if name not in text])
    with tempfile.TemporaryFile(buffering=0) as file:
        resampled = _write_numbers(file.fileno(), _frames(parts, columns), places)
        file.seek(end)
        with pa.ipc.new_stream(file, pa.schema([(name, pa.large_string()) for name in text])) as words:
            for frame in _frames(parts, columns):
                words.write_table(pa.table({name: pa.array(frame[name], pa.large_string()) for name in text}))
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    arrays = {name: np.frombuffer(content, *place) for name, place in places.items()}
    read = pa.ipc.open_stream(pa.py_buffer(content)[end:]).read_all()
    made: dict[str, Any] = {name: kind.__from_arrow__(read[name]) for name, kind in text.items()}
    for name in columns:
        if type_of(name) == "Int64":
            made[name] = pd.arrays.IntegerArray(arrays[name], arrays[_missing(name)])
        elif name not in text and name != RESAMPLES:
            made[name] = arrays[name]
    made[RESAMPLES] = np.full(len(made["step"]), np.nan, dtype=object)
    ends = np.cumsum([length for _, length in resampled])
    for (row, length), last in zip(resampled, ends, strict=True):
        made[RESAMPLES][row] = arrays[RESAMPLES][last - length : last]
    return pd.DataFrame({name: made[name] for name in columns}, copy=False)


def _missing(name: str) -> str:
    return f"{name}: missing"


def _layout(parts: Sequence[Path], numbers: Sequence[str]) -> tuple[dict[str, _Place], int]:
    """Return where each array of numbers goes, and the byte after the last."""
    n = sum(pq.read_metadata(part).num_rows for part in parts)
    resampled = sum(sum(map(len, pd.read_parquet(part, columns=[RESAMPLES])[RESAMPLES].dropna())) for part in parts)
    sizes: dict[str, tuple[str, int]] = {}
    for name in numbers:
        kind = type_of(name)
        sizes[name] = ("f4", resampled) if name == RESAMPLES else ("f8" if kind == "float64" else "i8", n)
        if kind == "Int64":
            sizes[_missing(name)] = ("?", n)
    places: dict[str, _Place] = {}
    end = 0
    for name, (dtype, size) in sizes.items():
        places[name] = _Place(dtype, size, end)
        end = places[name].end
    return places, end


def _write_numbers(file: int, frames: Iterator[pd.DataFrame], places: dict[str, _Place]) -> list[tuple[int, int]]:
    """Write frame after frame; return the row and the number of values of each array of resamples."""
    written = dict.fromkeys(places, 0)
    resampled: list[tuple[int, int]] = []

    def put(name: str, values: Any) -> None:
        place = places[name]
        array = np.asarray(values, dtype=place.dtype)
        os.pwrite(file, array.tobytes(), place.start + written[name] * array.itemsize)
        written[name] += len(array)

    for frame in frames:
        kept = frame[RESAMPLES].notna().to_numpy()
        arrays = frame.loc[kept, RESAMPLES].tolist()
        rows = (written["step"] + np.flatnonzero(kept)).tolist()
        resampled += zip(rows, map(len, arrays), strict=True)
        put(RESAMPLES, np.concatenate([np.empty(0), *arrays]))
        for name in (places.keys() & set(frame.columns)) - {RESAMPLES}:
            if _missing(name) in places:
                put(_missing(name), frame[name].isna())
            put(name, frame[name].fillna(0) if _missing(name) in places else frame[name])
    return resampled
