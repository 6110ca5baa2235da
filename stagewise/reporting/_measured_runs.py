"""Several measured runs: their tables and stages, and what recurs over them."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from stagewise.checkpoints.run_folder import table_file
from stagewise.findings import Stages, head_roles, with_roles
from stagewise.findings.batch_familiarity import BatchFamiliarity
from stagewise.findings.replicates import Replicates, replicates_of
from stagewise.findings.scores import evidence, quantities_of
from stagewise.reporting._measured import axis_in
from stagewise.saved_findings import familiarity_in, load_stages
from stagewise.table import declare
from stagewise.token_axis import in_counts
from stagewise.words import count, qualified, warned


class MeasuredRuns(NamedTuple):
    """Measured runs: a name that no other one has, what stages are found in, the stages, whether the batch is known."""

    names: tuple[str, ...]
    tables: tuple[pd.DataFrame, ...]
    stages: tuple[Stages, ...]
    familiarities: tuple[BatchFamiliarity | None, ...]

    @property
    def whole(self) -> pd.DataFrame:
        """The rows of all runs."""
        return pd.concat(self.tables, ignore_index=True)

    def aligned(self, roles: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of all runs, with each head's role in place of its index."""
        pairs = zip(self.names, self.tables, strict=True)
        table = pd.concat([with_roles(rows, roles[roles["run"] == name]) for name, rows in pairs], ignore_index=True)
        for one in self.tables:
            declare(table, quantities_of(one))
        return table


def read_runs(folders: Sequence[Path], axis: str = "steps", tokens_per_step: int | None = None) -> MeasuredRuns:
    """Read measured runs."""
    files = [table_file(folder) for folder in folders]
    names = [str(file.outline["run"].iloc[0]) for file in files]
    names = names if len({*names}) == len(names) else [folder.as_posix() for folder in folders]
    axes = [axis_in(folder, axis, otherwise=tokens_per_step) for folder in folders]
    tables = (file.read(evidence(file.outline)).assign(run=name) for file, name in zip(files, names, strict=True))
    stages = (_stages(folder, name) for folder, name in zip(folders, names, strict=True))
    return MeasuredRuns(
        tuple(names),
        tuple(rows if on is None else in_counts(rows, ("step",), on) for rows, on in zip(tables, axes, strict=True)),
        tuple(one if on is None else one.counted(on) for one, on in zip(stages, axes, strict=True)),
        tuple(map(familiarity_in, folders)),
    )


def over_seeds(seeds: MeasuredRuns) -> tuple[Replicates, pd.DataFrame]:
    """Return the findings that recur over seeds, and the rows of all runs with roles in place of heads."""
    roles = head_roles(seeds.whole)
    return replicates_of(seeds.stages, roles), seeds.aligned(roles)


def seeds_in_words(
    stages: Sequence[Stages], replicates: Replicates, familiarities: Sequence[BatchFamiliarity | None]
) -> str:
    """Say the stages of each seed and what recurs over them; with the caveat where the batch is foreign to one."""
    each = "\n".join(f"{one.run}\n{warned(str(one), known)}" for one, known in zip(stages, familiarities, strict=True))
    over = qualified(str(replicates), first_foreign(familiarities))
    return f"{each}\nover {count(len(stages), 'seed')}:\n{over}"


def first_foreign(familiarities: Sequence[BatchFamiliarity | None]) -> BatchFamiliarity | None:
    """Return the familiarity of the first run to which its batch is foreign; None where all know theirs."""
    return next((familiarity for familiarity in familiarities if familiarity is not None and familiarity.foreign), None)


def _stages(folder: Path, name: str) -> Stages:
    stages = load_stages(folder)
    if stages is None:
        raise ValueError(f"{folder} has neither references nor scores over four checkpoints: leave it out")
    return dataclasses.replace(stages, run=name)
