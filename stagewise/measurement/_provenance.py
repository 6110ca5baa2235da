"""Where numbers come from: the record of checkpoints that were trained elsewhere, code, batch, device and threads."""

import functools
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from stagewise.architecture import Architecture
from stagewise.checkpoints._causes import of_log
from stagewise.checkpoints._digest import short_digest
from stagewise.checkpoints.findings import Audit
from stagewise.checkpoints.run_folder import FORMAT, versions
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.models._numbers import Dtype
from stagewise.own_code import named
from stagewise.recipe import describe
from stagewise.task import AbstractTask, Batch


def provenance(batch: Batch, device: str = "cpu", dtype: Dtype = "float32") -> dict[str, str | int]:
    """Return the settings of a measurement beside its probes: batch, device, dtype, threads, and the code at work."""
    revision = _git_revision(os.getcwd())
    return {
        "batch": short_digest(batch),
        "sequences": len(batch),
        "positions": batch.tokens.shape[1],
        "device": device,
        "dtype": dtype,
        "threads": torch.get_num_threads(),
        **({"git": revision} if revision else {}),
    }


@functools.cache
def _git_revision(folder: str) -> str:
    """Return the commit of the repository that a folder lies in, with "and changes" if files differ; empty for none.

    To see whether files differ git runs what the repository's own config names, as a filter or a monitor of files. So
    it is asked only of a repository whose code runs here anyway.
    """
    try:
        top, revision = _git("rev-parse", "--show-toplevel", "HEAD", at=folder).splitlines()
        if not _runs_code_of(top):
            return f"{revision}, changes unknown"
        changed = _git("status", "--porcelain", "--untracked-files=no", at=folder)
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return f"{revision} and changes" if changed else revision


def _runs_code_of(folder: str) -> bool:
    """Whether code of one's own is imported from a folder; what is installed somewhere in it does not count."""
    paths = [Path(os.path.realpath(each)) for each in (*sys.path, *filter(None, named().values()))]
    return any(
        path.is_relative_to(folder) and not any(path.is_relative_to(each) for each in (sys.prefix, sys.base_prefix))
        for path in paths
    )


def _git(*command: str, at: str) -> str:
    called = ["git", *command]
    return subprocess.run(called, cwd=at, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def analysis_record(
    series: CheckpointSeries, identity: str, task: AbstractTask | None, batch: Batch, faults: Audit
) -> dict[str, Any]:
    """Return the record of checkpoints that were trained elsewhere, in place of a run's."""
    own = {"type": "a batch of one's own", "sequences": len(batch), "positions": batch.tokens.shape[1]}
    revisions = {} if series.source is None else _revisions(series)
    return {
        "format": FORMAT,
        "series": {
            "name": series.name,
            "steps": list(series.steps),
            "tokens": list(series.tokens.values()),
            "source": identity,
            **revisions,
        },
        "recipe": {"architecture": _plain(series.architecture), "task": own if task is None else describe(task)},
        "causes": {} if series.source is None else of_log(series.source.log()),
        "audit": faults.plain,
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
