"""Rows that lie on disk already: those of the same measurement, and of others a probe at a time.

A measurement has a folder of parts, a file a checkpoint, named by all that decides them but the weights, which are in
the file's name. Its `settings.json` holds the key of each probe; a part says which columns each probe's rows have.
"""

import dataclasses
import inspect
import itertools
import json
import pickle
import secrets
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

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
from stagewise.table import ARRAYS, Quantities, conformed, declare, in_order
from stagewise.task import Batch

_ROWS_IN_MEMORY = 20_000
"""A table of more rows has its arrays in files; those of a smaller one fit into a few megabytes."""

PASSES = "edited passes"
"""Key in that of a checkpoint's rows: the way of its edited passes, as in `_checkpoint._Readings`."""

ANEW = "delete it, and the same call measures its checkpoint again"
"""The remedy for a damaged part."""

_AT_ONCE = 2**20
"""Bytes that are read together: a frame costs milliseconds however few its rows are."""

_CELLS = pa.list_(pa.float32())
"""Type of a column of arrays."""

_SETTINGS = "settings.json"

VERSION = 1
"""Version of the catalogue of probes: raise it with every change of the numbers that one of them reads out.

Rows that another version wrote are not taken up. `make golden` refuses to write changed readings under one number.
"""

OF_PROBES = "of probes"
"""Key in what a part records: the columns, and the way of the edited passes, of each probe's rows, and its note."""

_PROCESS = secrets.token_hex()
"""This process's part in the identity of code and objects that no other process is sure to share."""


def join(parts: Sequence[Path], rows_in_memory: int = _ROWS_IN_MEMORY) -> pd.DataFrame:
    """Return the rows of all parts as one table; the arrays of a large one are mapped from files without a name."""
    columns = _columns(parts)
    if sum(pq.read_metadata(part).num_rows for part in parts) <= rows_in_memory:
        return _together(parts, columns)
    with tempfile.TemporaryDirectory() as scratch:
        join_into(parts, path := Path(scratch, "table.parquet"))
        return TableFile(path).read(None, None, ARRAYS, aside=True)


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


Earlier = dict[str, list[Path]]
"""Name of a probe -> the folders of other measurements whose parts have rows of it that are this one's too."""


def earlier_rows(earlier: Earlier, part: str) -> list[Rows]:
    """Return a checkpoint's rows, by the name of their part, of every probe that was measured, by file."""
    records, chosen = dict[Path, Mapping[str, Any]](), dict[str, Path]()
    for probe, folders in earlier.items():
        for path in (folder / part for folder in folders):
            if path not in records:
                records[path] = _records(path) if path.exists() else {}
            if probe in records[path]:
                chosen[probe] = path
                break
    of_files = {path: [name for name in chosen if chosen[name] == path] for path in chosen.values()}
    frames = {path: _together([path], _columns([path])) for path in of_files}
    return [
        Rows(frames[path][frames[path]["probe"].isin(names)], {name: records[path][name] for name in names})
        for path, names in of_files.items()
    ]


def notes_of(parts: Sequence[Path], probe: str) -> list[Any]:
    """Return what a probe kept of those checkpoints of which it did."""
    return [note for part in parts if (note := _records(part).get(probe, {}).get("note")) is not None]


def _records(path: Path) -> Mapping[str, Any]:
    with parquet_faults(path, ANEW):
        records: Mapping[str, Any] = TableFile(path).provenance.get(OF_PROBES, {})
    return records


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
    chosen = {type(probe).__name__: sorted(probe.checkpoints) for probe in probes if probe.checkpoints is not None}
    code = [*engine, *sources, *([chosen] if chosen else [])]
    parts = folder / short_digest([series.name, series.architecture, fields, batch, order, resamples, code])
    shared = short_digest([series.name, series.architecture, batch, order, resamples, *engine])
    every = zip(probes, fields, sources, strict=True)
    keys = {type(probe).__name__: short_digest([shared, *own]) for probe, *own in every}
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
    return parts, having


def _fields(probe: AbstractProbe) -> object:
    fields = probe if dataclasses.is_dataclass(probe) else {"type": type(probe).__name__, **vars(probe)}
    return fields if is_told(fields) else _by_value(probe)


def _source(probe: AbstractProbe) -> str:
    """Return the version of the catalogue, and the code of modules that it has not: that of a cell by its value."""
    known = {AbstractProbe.__module__.partition(".")[0], *sys.stdlib_module_names}
    own = [kind for kind in type(probe).__mro__ if kind.__module__.partition(".")[0] not in known]
    try:
        code = dict.fromkeys(inspect.getsource(inspect.getmodule(kind) or kind) for kind in own)
        return "\n".join([str(VERSION), *code])
    except (OSError, TypeError):
        return _by_value(type(probe))


def _by_value(thing: object) -> str:
    """Return a hash of functions and classes of a cell, for this process alone: others may lie at their addresses."""
    try:
        return f"{_PROCESS} {sha256(cloudpickle.dumps(thing)).hexdigest()}"
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError):
        return secrets.token_hex()  # measured anew each time
