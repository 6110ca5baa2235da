"""Findings beside the table that they were found in: written, read, and found anew where they do not belong to it."""

import concurrent.futures
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from stagewise.checkpoints import TableFile, causes_of, is_intact, read_json
from stagewise.checkpoints.run_folder import ANALYSIS, read_record, remove_leftovers, table_file, write_json
from stagewise.criteria import DEFAULT, StageCriteria
from stagewise.findings import OUTPUTS, PATTERNS, digest, has_patterns, names_of
from stagewise.findings.alarms import Alarm, alarms_of
from stagewise.findings.batch_familiarity import LOSSES, BatchFamiliarity, familiarity_of_run
from stagewise.findings.lineage import Lineage, find_lineage
from stagewise.findings.replicates import Replicates
from stagewise.findings.scores import evidence, rows_of_evidence
from stagewise.findings.stages import Stages, find_stages, shows_stages
from stagewise.table import with_role

STAGES, LINEAGE = "tables/stages.json", "tables/lineage.json"
"""Where the findings of a run folder are, beside the table that they were found in."""

REPLICATES = "replicates.json"
"""Where the findings over seeds are, in the folder of a report on several runs."""

VERSION = 33
"""Version of what is found in a table: raise it with every change of statistics or findings that changes a result.

Findings that another version saved are found anew. `make golden` refuses to write changed findings under one number.
"""

_ANEW = "delete it, what it holds is found anew"
"""The remedy for a file that cannot be read."""


def save_stages(stages: Stages, folder: str | Path) -> Path:
    """Write stages beside the table of a run folder, as `tables/stages.json`; return the path."""
    return write_json(Path(folder) / STAGES, {"version": VERSION, **stages.written})


def save_replicates(replicates: Replicates, folder: str | Path) -> Path:
    """Write findings over seeds as `replicates.json` into a folder; return the path."""
    return write_json(Path(folder) / REPLICATES, replicates.written)


def load_stages(
    source: str | Path | TableFile | pd.DataFrame,
    criteria: StageCriteria | None = None,
    *,
    folder: str | Path | None = None,
    executor: concurrent.futures.Executor | None = None,
) -> Stages | None:
    """Return the stages of a measured run: those saved beside its table if they belong to it, else found and saved.

    Changes in the run's own record (`checkpoints.causes`) are causes; where there is no folder, changes of a logged
    learning rate in the table.

    Args:
        source: a run folder, the file of its table, or the table itself.
        criteria: the thresholds; None takes those of the saved stages, and the defaults where none are saved.
        folder: where the table lies, if it is handed over itself; None reads and saves nothing.
        executor: as in `find_stages`.

    Returns None where the table can show none: fewer than four checkpoints, or neither references nor scores.

    Raises:
        FileNotFoundError: the folder holds no table.
        ValueError: the table has several runs, or the saved stages cannot be read.
    """
    if isinstance(source, pd.DataFrame):
        table, folder = source, None if folder is None else Path(folder)
    else:
        file = _opened(source)
        table, folder = file.read(evidence(file.outline), arrays=["resamples"], aside=True), file.folder
    causes = None if folder is None else causes_of(folder)
    saved: Stages | None = None if folder is None else _saved(Stages, folder / STAGES, rows_of_evidence(table))
    if saved is not None and criteria in (None, saved.criteria) and saved.causes == causes:
        return saved
    criteria = criteria or DEFAULT
    if not shows_stages(table, criteria):
        return None
    stages = find_stages(table, criteria=criteria, causes=causes, executor=executor)
    if folder is not None and os.access(folder, os.W_OK):
        save_stages(stages, folder)
    return stages


def _opened(source: str | Path | TableFile) -> TableFile:
    return source if isinstance(source, TableFile) else table_file(Path(source))


def load_lineage(source: str | Path | TableFile) -> Lineage | None:
    """Return the lineage of a measured run folder: the one saved beside its table, else found in it and saved.

    Returns None where the table has no patterns of heads.

    Raises:
        FileNotFoundError: the folder holds no table.
    """
    file = _opened(source)
    table, folder = file.read(list(map(".".join, with_role(file.outline, *PATTERNS, *OUTPUTS)))), file.folder
    if not has_patterns(table):
        return None
    saved: Lineage | None = _saved(Lineage, folder / LINEAGE, table)
    if saved is not None:
        return saved
    lineage = find_lineage(table)
    if os.access(folder, os.W_OK):
        write_json(folder / LINEAGE, {"version": VERSION, **lineage.written})
    return lineage


def load_findings(
    file: TableFile, executor: concurrent.futures.Executor | None = None
) -> tuple[Stages | None, Lineage | None]:
    """Return the stages and the lineage of a measured run, side by side where there is an executor."""
    future = None if executor is None else executor.submit(load_lineage, file)
    stages = load_stages(file, executor=executor)
    return stages, load_lineage(file) if future is None else future.result()


def alarms_in(folder: Path, expected: Mapping[str, int] | None = None) -> list[Alarm]:
    """Return the alarms of a measured folder so far: see `findings.alarms.alarms_of`."""
    file = table_file(folder)
    return alarms_of(file.read(evidence(file.outline)), load_stages(folder), expected)


def familiarity_in(folder: Path) -> BatchFamiliarity | None:
    """Judge the probe batch of a measured folder; None as `familiarity_of_run`.

    Raises:
        FileNotFoundError: the folder holds no table.
        ValueError: its record is not readable.
    """
    if not (folder / ANALYSIS).exists():
        return None
    file = table_file(folder)
    return familiarity_of_run(read_record(folder), file.read(names_of(file.outline, *LOSSES)))


def _saved(kind: type[Stages] | type[Lineage], path: Path, rows: pd.DataFrame) -> Any:
    """Return the saved findings of a kind, if this code found them in these very rows; else None."""
    if not path.exists():
        return None
    if not is_intact(path):
        warnings.warn(f"{path} is damaged: what it holds is found anew", stacklevel=2)
        return None
    written = read_json(path, _ANEW)
    if written.get("version") != VERSION or written.get("digest") != digest(rows):
        return None
    remove_leftovers(path.parent)  # of who was killed when it had written them
    try:
        return kind.of(written)
    except (KeyError, TypeError) as reason:
        raise ValueError(f"{path} is not what stagewise writes there: delete it ({reason})") from reason
