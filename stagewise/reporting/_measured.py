"""Inputs of a report: a run's record, its metrics, its table, its stages, and where relations lie.

A section reads its own rows from the table on disk and drops them when it is made: a report takes the memory of its
largest section, not of the table.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from stagewise.checkpoints import TableFile, chosen, read_json, read_parquet, run_folder
from stagewise.findings import Stages, names_of
from stagewise.findings.batch_familiarity import LOSSES, BatchFamiliarity, familiarity_of_run
from stagewise.findings.lineage import Lineage
from stagewise.reporting._html import write_text
from stagewise.table import families
from stagewise.token_axis import TokenAxis, token_axis

RECORDED = "batch"
"""Key under which the record of a run describes its probe batch, where `write_batch` wrote it."""

PROVENANCE = "provenance"
"""Key in that description, of what decided the measurement beside its probes."""

FRAMES = {
    "metrics": (run_folder.METRICS, "delete it to report without the training loss"),
    "repeated": (run_folder.REPEATED, "measure it anew"),
    "interventions": (run_folder.INTERVENTIONS, "delete it, and run `stagewise cause intervene` again"),
    "certificate": (run_folder.CERTIFICATE, "delete it, and run `stagewise cause certify` again"),
}
"""Field of `Measured` -> its file in a run folder, and what to do where that is damaged."""

AXES = "steps", "tokens"
"""Axes on which times are written."""


class Measured(NamedTuple):
    """The contents of a run folder. `table` may be a part of the `whole`; relations are those that lie in the same
    place in every sequence; `first_query` is the first one that is scored; `repeated` was measured on repeated random
    tokens.
    """

    run: Mapping[str, Any]
    table: pd.DataFrame
    stages: Stages | None = None
    relations: Mapping[str, np.ndarray] = MappingProxyType({})
    first_query: int = 0
    references: Sequence[str] = ()
    metrics: pd.DataFrame | None = None
    repeated: pd.DataFrame | None = None
    whole: pd.DataFrame | TableFile | None = None
    lineage: Lineage | None = None
    interventions: pd.DataFrame | None = None
    certificate: pd.DataFrame | None = None
    example: Mapping[str, Any] | None = None

    def only(
        self, names: Collection[str], steps: Collection[int] | None = None, arrays: Collection[str] = ()
    ) -> "Measured":
        """Return the same with only these rows of the whole as its table; arguments are those of `TableFile.read`."""
        whole = self.table if self.whole is None else self.whole
        if isinstance(whole, TableFile):
            return self._replace(table=whole.read(names, steps, arrays), whole=whole)
        return self._replace(table=chosen(whole, names, steps), whole=whole)

    @property
    def file(self) -> TableFile:
        """The file of the whole table, of a run that was read from a folder."""
        assert isinstance(self.whole, TableFile)
        return self.whole

    @property
    def familiarity(self) -> BatchFamiliarity | None:
        """Whether the models know sequences like those of the probe batch; None for a run on its own task."""
        whole = self.table if self.whole is None else self.whole
        outline = whole.outline if isinstance(whole, TableFile) else whole
        return familiarity_of_run(self.run, self.only(names_of(outline, *LOSSES)).table)

    @property
    def provenance(self) -> Mapping[str, Any]:
        """Settings of the measurement beside its probes: batch, sequences, positions, device, threads."""
        recorded = self.run.get(RECORDED, {}).get(PROVENANCE, {})
        return {**recorded, **self.whole.provenance} if isinstance(self.whole, TableFile) else recorded

    @property
    def origin(self) -> str:
        """Provenance in a figure of this run: the run, the batch, the versions."""
        known = {**self.run.get(RECORDED, {}).get(PROVENANCE, {}), **self.run.get("versions", {})}
        parts = [f"{name} {known[name]}" for name in ("batch", "stagewise", "torch") if name in known]
        return ", ".join([f"run {self.table['run'].iloc[0]}" if len(self.table) else "run", *parts])

    def has(self, name: str) -> bool:
        """Whether the table has rows of a probe, as in "Loss", or of one of its quantities, as in "Loss.excess"."""
        probe, _, quantity = name.partition(".")
        rows = self.table["probe"] == probe
        return bool((rows & (self.table["quantity"] == quantity) if quantity else rows).any())

    @property
    def has_relations(self) -> bool:
        """Whether the task is known to name relations that a head should attend to."""
        return bool(self.relations) or ("relation" in self.table and bool(self.table["relation"].notna().any()))

    def families(self) -> dict[str, list[str]]:
        """Return the references that KL was measured to, sorted by `table.families`; none without rows."""
        rows = self.only(["KLToReference.kl"]).table
        return families(rows) if len(rows) else {}


def read_measured(folder: Path) -> Measured:
    """Read a measured run: its record, its table's outline, and what lies beside them; without stages and lineage."""
    file, run = run_folder.table_file(folder), run_folder.read_record(folder)
    batch, example = folder / run_folder.BATCH, folder / run_folder.EXAMPLE
    if batch.exists():
        run[RECORDED] = read_json(batch, f"measure again, with `stagewise measure {folder}`")
    shown = read_json(example, f"delete {example} to report without it") if example.exists() else None
    present = {name: (folder / place, fix) for name, (place, fix) in FRAMES.items() if (folder / place).exists()}
    frames: dict[str, Any] = {name: read_parquet(*each) for name, each in present.items()}
    known = _known_of(recorded) if (recorded := run.get(RECORDED)) else {}
    return Measured(run, file.outline, whole=file, example=shown, **known, **frames)


def axis_in(
    folder: Path, axis: str, tokens_per_step: int | None = None, otherwise: int | None = None
) -> TokenAxis | None:
    """Return the axis of a folder's times, as `axis_of` does."""
    record = run_folder.read_record(folder) if (folder / run_folder.RUN).exists() else {}
    return axis_of(run_folder.table_file(folder).outline, record, axis, tokens_per_step, otherwise)


def axis_of(
    outline: pd.DataFrame,
    record: Mapping[str, Any],
    axis: str,
    tokens_per_step: int | None = None,
    otherwise: int | None = None,
) -> TokenAxis | None:
    """Return the axis of a run's times, None for "steps"; tokens a step are the table's, plan's or `otherwise`."""
    if axis not in AXES:
        raise ValueError(f"an axis is one of {', '.join(AXES)}; got {axis!r}")
    if axis == "steps":
        return None
    if tokens_per_step is None and not ("tokens" in outline and outline["tokens"].notna().any()):
        planned = _planned(record)
        tokens_per_step = otherwise if planned is None else planned
    return token_axis(outline, tokens_per_step)


def _planned(record: Mapping[str, Any]) -> int | None:
    """Return how many tokens every update of a recorded run takes; None where they differ, or nothing says so."""
    recipe = record.get("recipe") or {}
    if "plan.batch_size" in (recipe.get("schedules") or {}):
        return None
    batch, positions = recipe.get("plan", {}).get("batch_size"), recipe.get("task", {}).get("n_ctx")
    positions = positions or recipe.get("architecture", {}).get("config", {}).get("n_ctx")
    return batch * positions if batch and positions else None


def write_batch(folder: Path, batch: Any, provenance: Mapping[str, Any] | None = None) -> None:
    """Write beside the table of a folder what a report needs to know of the probe batch: then it rebuilds no task.

    A relation alike in every sequence has (query, key) pairs.
    """
    still = {name: mask[0].numpy() for name, mask in batch.relations.items() if bool((mask == mask[:1]).all())}
    record = {
        "relations": {name: np.argwhere(mask).tolist() for name, mask in still.items()},
        "size": list(next(iter(still.values())).shape) if still else [],
        "first_query": int(batch.scored[0].numpy().argmax()),
        "references": list(batch.references),
        PROVENANCE: dict(provenance or {}),
    }
    write_text(folder / run_folder.BATCH, json.dumps(record))


def _known_of(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `Measured` that `write_batch` wrote."""
    masks = {name: np.zeros(batch["size"], dtype=bool) for name in batch["relations"]}
    for name, pairs in batch["relations"].items():
        masks[name][tuple(np.array(pairs, dtype=int).reshape(-1, 2).T)] = True
    return {"relations": masks, "first_query": batch["first_query"], "references": batch["references"]}
