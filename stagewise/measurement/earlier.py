"""Which rows on disk are those of a measurement: its folder, named by all that decides them but the weights."""

import dataclasses
import inspect
import pickle
import secrets
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import cloudpickle

from stagewise.checkpoints.digest import is_told, short_digest
from stagewise.checkpoints.run_folder import write_json
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.probe import AbstractProbe
from stagewise.task import Batch

PROCESS = secrets.token_hex()
"""Of this process, in the identity of code and objects that no other process can be sure to have the same of."""


def parts_folder(
    folder: Path,
    series: CheckpointSeries,
    probes: Sequence[AbstractProbe],
    batch: Batch,
    resamples: int,
    by_hooks: bool,
) -> Path:
    """Return the folder of this measurement, named by the hash of everything that determines it but the weights."""
    code = [version("stagewise"), by_hooks, *map(_source, probes)]
    fields = list(map(_fields, probes))
    order = batch.nested_references  # equal batches may order their references differently
    parts = folder / short_digest([series.name, series.architecture, fields, batch, order, resamples, code])
    settings = {
        "run": series.name,
        "probes": [repr(probe) for probe in probes],
        "resamples": resamples,
        "stagewise": version("stagewise"),
    }
    write_json(parts / "settings.json", settings)
    return parts


def _fields(probe: AbstractProbe) -> object:
    fields = probe if dataclasses.is_dataclass(probe) else {"type": type(probe).__name__, **vars(probe)}
    return fields if is_told(fields) else _by_value(probe)


def _source(probe: AbstractProbe) -> str:
    """Return the code of a probe's module, and of those of its base classes beyond the library: another version of it
    measures anew. Code in no file, as in a notebook's cells, is told by its value.
    """
    of_library = f"{AbstractProbe.__module__.partition('.')[0]}."
    kinds = [
        kind for kind in type(probe).__mro__[:-1] if kind is type(probe) or not kind.__module__.startswith(of_library)
    ]
    try:
        return "\n".join(dict.fromkeys(inspect.getsource(inspect.getmodule(kind) or kind) for kind in kinds))
    except (OSError, TypeError):
        return _by_value(type(probe))


def _by_value(thing: object) -> str:
    """Return a hash that only this process gives, and only for what is the same in it: functions, classes of a cell.

    Their words are the addresses where they lie, which another one may have as soon as they are gone.
    """
    try:
        return f"{PROCESS} {sha256(cloudpickle.dumps(thing)).hexdigest()}"
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError):
        return secrets.token_hex()  # measured anew each time
