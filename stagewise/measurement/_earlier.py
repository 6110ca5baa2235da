"""Rows that lie on disk already: those of the same measurement, and of others a probe at a time.

A measurement has a folder of parts, a file a checkpoint, named by all that decides them but the weights, which are in
the file's name. Its `settings.json` holds the key of each probe; a part says which columns each probe's rows have.
"""

import dataclasses
import inspect
import pickle
import secrets
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import pandas as pd

from stagewise.checkpoints._data_files import parquet_faults, read_json
from stagewise.checkpoints._digest import SHORT, is_told, short_digest
from stagewise.checkpoints._table_file import TableFile
from stagewise.checkpoints.run_folder import write_json
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement._parts import ANEW, rows_in
from stagewise.models._numbers import Dtype
from stagewise.probe import AbstractProbe
from stagewise.table import conformed, in_order
from stagewise.task import Batch

_SETTINGS = "settings.json"

OF_PROBES = "of probes"
"""Key in what a part records: the columns, and the way of the edited passes, of each probe's rows."""

_PROCESS = secrets.token_hex()
"""This process's part in the identity of code and objects that no other process is sure to share."""


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
    """Return the code of a probe's module and its own bases, whose change measures anew; other code by its value."""
    known = {AbstractProbe.__module__.partition(".")[0], *sys.stdlib_module_names}
    bases = [base for base in type(probe).__mro__[1:] if base.__module__.partition(".")[0] not in known]
    try:
        return "\n".join(
            dict.fromkeys(inspect.getsource(inspect.getmodule(kind) or kind) for kind in (type(probe), *bases))
        )
    except (OSError, TypeError):
        return _by_value(type(probe))


def _by_value(thing: object) -> str:
    """Return a hash of functions and classes of a cell, for this process alone: others may lie at their addresses."""
    try:
        return f"{_PROCESS} {sha256(cloudpickle.dumps(thing)).hexdigest()}"
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError):
        return secrets.token_hex()  # measured anew each time
