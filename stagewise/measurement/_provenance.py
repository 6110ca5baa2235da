"""Where numbers come from, as records: series, batch, device, threads; and the probes of a table, made anew."""

import ast
import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from stagewise import probes as catalogue
from stagewise.architecture import Architecture
from stagewise.checkpoints import TableFile, short_digest
from stagewise.checkpoints.findings import Audit
from stagewise.checkpoints.run_folder import FORMAT, TABLE, versions
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.learning_rates import of_log
from stagewise.models import Dtype
from stagewise.probe import AbstractProbe
from stagewise.recipe import describe, type_name
from stagewise.task import AbstractTask, Batch

PROBES = "probes"
"""Key in what decided a table's measurement: the probe in words, by its name, of one's own by "module:Class"."""


def provenance(batch: Batch, device: str = "cpu", dtype: Dtype = "float32") -> dict[str, str | int]:
    """Return the settings of a measurement beside its probes: batch, device, dtype and threads."""
    return {
        "batch": short_digest(batch),
        "sequences": len(batch),
        "positions": batch.tokens.shape[1],
        "device": device,
        "dtype": dtype,
        "threads": torch.get_num_threads(),
    }


def analysis_record(
    series: CheckpointSeries, identity: str, task: AbstractTask | None, batch: Batch, faults: Audit | None = None
) -> dict[str, Any]:
    """Return the record of checkpoints that were trained elsewhere, in place of a run's."""
    own = {"type": "a batch of one's own", "sequences": len(batch), "positions": batch.tokens.shape[1]}
    return {
        "format": FORMAT,
        "series": {
            "name": series.name,
            "steps": list(series.steps),
            "tokens": list(series.tokens.values()),
            "source": identity,
            **_revisions(series),
        },
        "recipe": {"architecture": _plain(series.architecture), "task": own if task is None else describe(task)},
        "causes": {} if series.source is None else of_log(series.source.log()),
        "audit": faults and faults.plain,
        "versions": versions(),
    }


def _revisions(series: CheckpointSeries) -> Mapping[str, Any]:
    """Return the revisions of a hub's checkpoints, the commit that each stood for, and the hashes of the weights."""
    source = series.source
    if source is None or not source.remote:
        return {}
    entries = [entry for entry in source.entries if entry.at.step in series.steps]
    return {
        "revisions": [entry.label for entry in entries],
        "commits": [entry.commit() for entry in entries],
        "weights": [entry.digest() for entry in entries],
    }


def _plain(architecture: Architecture) -> dict[str, object]:
    """Return the parts of the architecture that JSON can hold."""
    config = {k: v for k, v in architecture.config.items() if v is None or isinstance(v, bool | int | float | str)}
    kind = (architecture.huggingface or {}).get("model_type")
    return {"config": config, "huggingface": kind}


def in_words(probes: Iterable[AbstractProbe]) -> dict[str, str]:
    """Return a table's records of its probes."""
    return {type_name(type(probe)): repr(probe) for probe in probes}


def recorded(folder: Path) -> dict[str, Any]:
    """Return what decided the table of a run folder, as `provenance` and its probes say it; nothing without a table."""
    file = TableFile(folder / TABLE)
    return file.provenance if file.path.exists() else {}


def recorded_probes(folder: Path) -> dict[str, str]:
    """Return the records of the probes in the table of a run folder; nothing where there is no table."""
    if not (known := recorded(folder).get(PROBES, {})) and (folder / TABLE).exists():
        raise ValueError(
            f"{folder / TABLE} does not say which probes it was measured with: measure it anew, with `stagewise "
            f"measure {folder}`"
        )
    return dict(known)


def made_anew(recorded: Mapping[str, str], known: Iterable[AbstractProbe] = ()) -> list[AbstractProbe]:
    """Return the probes of a record: known ones that are the same in words, or the catalogue's with its parameters."""
    same = in_words(known)
    by_name = {type_name(type(probe)): probe for probe in known}
    return [by_name[name] if same.get(name) == text else _made(name, text) for name, text in recorded.items()]


def _made(name: str, text: str) -> AbstractProbe:
    cls = vars(catalogue).get(name)
    if not isinstance(cls, type):
        fix = name if ":" in name else f"module:{name}"
        raise ValueError(
            f"the table was measured with {text}, a probe of one's own: give --probe {fix}, or leave its rows out with "
            f"--without {name.rpartition(':')[2]}"
        )
    with contextlib.suppress(SyntaxError, ValueError, TypeError):
        call = ast.parse(text, mode="eval").body
        given = {str(each.arg): ast.literal_eval(each.value) for each in getattr(call, "keywords", ())}
        probe: AbstractProbe = cls(**given)
        if repr(probe) == text:
            return probe
    raise ValueError(
        f"the table was measured with {text}, whose parameters cannot be read from these words: give a subclass "
        f"with them as its defaults, by --probe module:{name}, or leave its rows out with --without {name}"
    )
