"""Several measured runs, read for a page on all of them: their names, their evidence, their stages, their heads."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from stagewise.checkpoints.run_folder import table_file
from stagewise.findings.batch_familiarity import BatchFamiliarity
from stagewise.findings.replicates import Replicates, replicates_of
from stagewise.findings.roles import head_roles, with_roles
from stagewise.findings.scores import evidence, quantities_of
from stagewise.findings.stages import Stages
from stagewise.plot.quantities import quantity_of
from stagewise.reporting.page import Part
from stagewise.reporting.prose import html_table, in_words, stage_rows
from stagewise.saved_findings import familiarity_in, load_stages
from stagewise.table import declare
from stagewise.words.familiarity import CAVEAT, qualified, warned
from stagewise.words.grammar import capital, count

FOREIGN = "The probe batch is foreign to these models"
"""Headline of a page on runs where it is so of one."""


class MeasuredRuns(NamedTuple):
    """Measured runs: a name that no other one has, what stages are found in, the stages, whether the batch is known.

    Args:
        names: of the runs.
        tables: of each run, its rows of evidence under its name.
        stages: of each run.
        familiarities: of each run; None for a run on its task.
    """

    names: tuple[str, ...]
    tables: tuple[pd.DataFrame, ...]
    stages: tuple[Stages, ...]
    familiarities: tuple[BatchFamiliarity | None, ...]

    @property
    def whole(self) -> pd.DataFrame:
        """The rows of all runs."""
        return pd.concat(self.tables, ignore_index=True)

    @property
    def foreign(self) -> BatchFamiliarity | None:
        """What is known of the first run to which its batch is foreign; None where all know theirs."""
        return _first_foreign(self.familiarities)

    def aligned(self, roles: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of all runs, with each head's role in place of its index."""
        pairs = zip(self.names, self.tables, strict=True)
        rows = [with_roles(table, roles[roles["run"] == name]) for name, table in pairs]
        table = pd.concat(rows, ignore_index=True)
        for one in self.tables:
            declare(table, quantities_of(one))
        return table


def stages_of_each(label: str, stages: Sequence[Stages]) -> str:
    """Return the stages of several runs as one HTML table, behind a column for the run's name.

    Args:
        label: of that column, as "run" or "seed".
        stages: of each run.
    """
    rows = [[one.run, *row[:3], one.unknown or row[-1]] for one in stages for row in stage_rows(one)]
    return html_table((label, "stage", "from step", "to step", "what happened"), rows)


def curve_title(table: pd.DataFrame, probe: str, name: str) -> str:
    """Name the section of a curve: what it shows, and the probe that measured it."""
    return f"{capital(quantity_of(table, probe, name).label)} ({in_words(probe).lower()})"


def with_caveat(parts: Iterable[Part]) -> list[Part]:
    """Return the sections of a page, each below the sentence that the batch is foreign to a model."""
    return [part._replace(body=f'<p class="caveat">{CAVEAT}.</p>\n{part.body}') for part in parts]


def read_runs(folders: Sequence[Path]) -> MeasuredRuns:
    """Read measured runs.

    Raises:
        FileNotFoundError: a folder holds no table.
        ValueError: a run in which no stages can be looked for.
    """
    names = _names(folders)
    tables = (_read(folder).assign(run=name) for folder, name in zip(folders, names, strict=True))
    stages = (_stages(folder, name) for folder, name in zip(folders, names, strict=True))
    return MeasuredRuns(names, tuple(tables), tuple(stages), tuple(map(familiarity_in, folders)))


def over_seeds(seeds: MeasuredRuns) -> tuple[Replicates, pd.DataFrame]:
    """Return what recurs in runs that differ in their seeds, and the rows of all with roles in place of heads.

    Raises:
        ValueError: the runs' heads differ.
    """
    roles = head_roles(seeds.whole)
    aligned = seeds.aligned(roles)
    return replicates_of(seeds.stages, roles), aligned


def seeds_in_words(
    stages: Sequence[Stages], replicates: Replicates, familiarities: Sequence[BatchFamiliarity | None] = ()
) -> str:
    """Say the stages of each seed and what recurs over them; with the caveat where the batch is foreign to one."""
    familiarities = familiarities or (None,) * len(stages)
    each = "\n".join(
        f"{one.run}\n{warned(str(one), familiarity)}" for one, familiarity in zip(stages, familiarities, strict=True)
    )
    over = qualified(str(replicates), _first_foreign(familiarities))
    return f"{each}\nover {count(len(stages), 'seed')}:\n{over}"


def _first_foreign(familiarities: Sequence[BatchFamiliarity | None]) -> BatchFamiliarity | None:
    """Return what is known of the first run to which its batch is foreign; None where all know theirs."""
    return next((familiarity for familiarity in familiarities if familiarity is not None and familiarity.foreign), None)


def _names(folders: Sequence[Path]) -> tuple[str, ...]:
    names = [str(table_file(folder).outline["run"].iloc[0]) for folder in folders]
    return tuple(names if len(set(names)) == len(names) else (folder.as_posix() for folder in folders))


def _read(folder: Path) -> pd.DataFrame:
    file = table_file(folder)
    return file.read(evidence(file.outline))


def _stages(folder: Path, name: str) -> Stages:
    stages = load_stages(folder)
    if stages is None:
        raise ValueError(f"{folder} has neither references nor scores over four checkpoints: leave it out")
    return dataclasses.replace(stages, run=name)
