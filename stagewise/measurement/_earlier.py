"""Rows that lie on disk already: those of the same measurement, and of others a probe at a time.

A measurement has a folder of parts, a file a checkpoint, named by all that decides them but the weights, which are in
the file's name. Its `settings.json` holds the key of each probe; a part says which columns each probe's rows have.
"""

import contextlib
import dataclasses
import inspect
import itertools
import json
import mmap
import pickle
import secrets
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, NamedTuple

import cloudpickle
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stagewise.checkpoints import PROVENANCE, SHORT, TableFile, is_told, parquet_faults, read_json, short_digest
from stagewise.checkpoints.run_folder import write_json
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.models import Dtype
from stagewise.probe import AbstractProbe
from stagewise.table import ARRAYS, Quantities, conformed, declare, in_order, type_of
from stagewise.task import Batch

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

_SETTINGS = "settings.json"

VERSION = 1
"""Version of the catalogue of probes: raise it with every change of the numbers that one of them reads out.

Rows that another version wrote are not taken up. `make golden` refuses to write changed readings under one number.
"""

OF_PROBES = "of probes"
"""Key in what a part records: the columns, and the way of the edited passes, of each probe's rows."""

_PROCESS = secrets.token_hex()
"""This process's part in the identity of code and objects that no other process is sure to share."""


def join(parts: Sequence[Path], mapped_rows: int = _MAPPED_ROWS) -> pd.DataFrame:
    """Return the rows of all parts as one table; a large one's columns are mapped from files without a name."""
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
    """Return the type of each array of numbers, of where they are missing, and of how many cells a row has."""
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


class Rows(NamedTuple):
    """A checkpoint's rows, and by the name of each probe what a part records: the columns, the way of edited passes."""

    frame: pd.DataFrame
    of: Mapping[str, Mapping[str, Any]]

    @property
    def passes(self) -> str:
        """The way of the edited passes, as in `_checkpoint._Readings`."""
        return " and ".join(sorted({record["passes"] for record in self.of.values()} - {""}))


def together(probes: Sequence[str], parts: Sequence[Rows]) -> Rows:
    """Return rows as if they had been measured at once: their order, and that of the columns, is that of the probes."""
    known = {name: record for part in parts for name, record in part.of.items()}
    of = {name: known[name] for name in probes}
    columns = in_order(column for record in of.values() for column in record["columns"])
    rows = pd.concat([part.frame for part in parts], ignore_index=True)
    order = rows["probe"].map({name: rank for rank, name in enumerate(probes)}).to_numpy().argsort(kind="stable")
    return Rows(conformed(rows.iloc[order].reset_index(drop=True), columns), of)


@dataclasses.dataclass(frozen=True)
class Earlier:
    """The folders of other measurements whose parts have rows that are this one's too, by the name of the probe."""

    folders: Mapping[str, Sequence[Path]] = dataclasses.field(default_factory=dict)

    def rows(self, part: str) -> list[Rows]:
        """Return a checkpoint's rows, by the name of their part, of every probe that was measured, by file."""
        records, chosen = dict[Path, Mapping[str, Any]](), dict[str, Path]()
        for probe, folders in self.folders.items():
            for path in (folder / part for folder in folders):
                if path not in records:
                    records[path] = _records(path) if path.exists() else {}
                if probe in records[path]:
                    chosen[probe] = path
                    break
        of_files = {path: [name for name in chosen if chosen[name] == path] for path in chosen.values()}
        return [_rows(path, records[path], names) for path, names in of_files.items()]


def _records(path: Path) -> Mapping[str, Any]:
    with parquet_faults(path, ANEW):
        records: Mapping[str, Any] = TableFile(path).provenance.get(OF_PROBES, {})
    return records


def _rows(path: Path, records: Mapping[str, Any], probes: Sequence[str]) -> Rows:
    rows = rows_in(path)
    return Rows(rows[rows["probe"].isin(probes)], {name: records[name] for name in probes})


def parts_folder(
    folder: Path,
    series: CheckpointSeries,
    probes: Sequence[AbstractProbe],
    batch: Batch,
    resamples: int,
    by_hooks: bool,
    dtype: Dtype = "float32",
) -> tuple[Path, Earlier]:
    """Return the folder of this measurement's parts, and others with rows of a probe on the same weights and data."""
    order = batch.nested_references  # equal batches may order their references differently
    fields, sources = list(map(_fields, probes)), list(map(_source, probes))
    engine = [version("stagewise"), by_hooks, *([] if dtype == "float32" else [dtype])]  # as before there were others
    code = [*engine, *sources]
    parts = folder / short_digest([series.name, series.architecture, fields, batch, order, resamples, code])
    shared = short_digest([series.name, series.architecture, batch, order, resamples, *engine])
    keys = {
        type(probe).__name__: short_digest([shared, *own]) for probe, *own in zip(probes, fields, sources, strict=True)
    }
    others = {
        path.parent: read_json(path, f"delete {path.parent}: its rows are measured again").get("keys", {})
        for path in sorted(folder.glob(f"{'[0-9a-f]' * SHORT}/{_SETTINGS}"))
        if path.parent != parts
    }
    settings = {
        "run": series.name,
        "probes": [repr(probe) for probe in probes],
        "resamples": resamples,
        "dtype": dtype,
        "stagewise": version("stagewise"),
        "keys": keys,
    }
    write_json(parts / _SETTINGS, settings)
    having = {name: [path for path, known in others.items() if known.get(name) == key] for name, key in keys.items()}
    return parts, Earlier(having)


def _fields(probe: AbstractProbe) -> object:
    fields = probe if dataclasses.is_dataclass(probe) else {"type": type(probe).__name__, **vars(probe)}
    return fields if is_told(fields) else _by_value(probe)


def _source(probe: AbstractProbe) -> str:
    """Return the version of the catalogue, and the code of modules that it has not: that of a cell by its value."""
    known = {AbstractProbe.__module__.partition(".")[0], *sys.stdlib_module_names}
    own = [kind for kind in type(probe).__mro__ if kind.__module__.partition(".")[0] not in known]
    try:
        return "\n".join([str(VERSION), *dict.fromkeys(map(_code_of_module, own))])
    except (OSError, TypeError):
        return _by_value(type(probe))


def _code_of_module(kind: type) -> str:
    return inspect.getsource(inspect.getmodule(kind) or kind)


def _by_value(thing: object) -> str:
    """Return a hash of functions and classes of a cell, for this process alone: others may lie at their addresses."""
    try:
        return f"{_PROCESS} {sha256(cloudpickle.dumps(thing)).hexdigest()}"
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError):
        return secrets.token_hex()  # measured anew each time
