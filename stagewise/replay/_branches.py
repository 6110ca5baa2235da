"""Runs that leave another one at a step: trained from its states, measured on its batch, and compared with it."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from stagewise.batch import Prompts
from stagewise.checkpoints import branch, branch_start, check_way, read_parquet, run_folder
from stagewise.checkpoints.run_folder import INTERVENTIONS, TABLE
from stagewise.checkpoints.series import CheckpointSeries, folder_of, open_series
from stagewise.findings import Stages
from stagewise.measurement.engine import measure
from stagewise.measurement.probe_batch import load_batch, series_batch
from stagewise.probe import AbstractProbe
from stagewise.probes import AttentionTo, BehaviourCurve, Loss
from stagewise.recipe import Recipe, describe, differences
from stagewise.replay._delays import Transition, behaviour_after, delays, transitions
from stagewise.replay.densifying import check_bits, densify_steps, recipe_at, replays_of
from stagewise.saved_findings import load_stages
from stagewise.table import Head, Role, tidy, with_role
from stagewise.task import Batch
from stagewise.tasks.pairs import Pairs, pairs_task
from stagewise.training import Dtype, prepare, train

FOLDER = "interventions"
"""In a run folder: the folders of the runs that leave it, named by what they change."""

_AXES = ["layer", "head", "kind", "relation", "change", "seed", "step"]
"""Columns of the table of delays that tell branches apart."""

_FIRST = ("head", "change")
"""The control in rows that are none themselves."""


class Branch(NamedTuple):
    """A run that leaves another one at a step. `labels` are columns of its rows, the attention of the heads `without`
    does not count, and `paired` names the branch that it is compared with.
    """

    recipe: Recipe
    start: int
    name: str
    labels: Mapping[str, object]
    without: Sequence[Head] = ()
    paired: str | None = None


class _Cost(NamedTuple):
    """The cost of branches: runs that are trained, their updates in all, and the earliest step of these."""

    runs: int
    updates: int
    start: int

    def __str__(self) -> str:
        if not self.runs:
            return "all runs are there already"
        are = "run is" if self.runs == 1 else "runs are"
        return f"{self.runs} {are} trained, from the state of step {self.start} on: {self.updates} updates in all"


class _Run(NamedTuple):
    """A branch in its folder, with the recipe that it is trained by, up to a step."""

    branch: Branch
    folder: Path
    recipe: Recipe
    until: int


@dataclasses.dataclass(frozen=True, eq=False)
class Parent:
    """A run that branches leave, and how these are trained; both are measured on its probe batch, or on prompts."""

    folder: Path
    recipe: Recipe
    pairs: Pairs | None = None
    progress: bool = False
    device: str = "cpu"
    dtype: Dtype = "float32"

    @classmethod
    def of(
        cls, folder: str | Path, recipe: Recipe | None = None, pairs: str | Path | Pairs | None = None, **how: Any
    ) -> "Parent":
        """Return a run as verbs take it: by the recipe in its folder, and on prompts of a file, where need be."""
        parent = cls(Path(folder), recipe or recipe_at(Path(folder)), **how)
        own = parent.recipe.task
        prompts = pairs_task(parent.series, pairs, own=own) if isinstance(pairs, str | Path) else pairs
        return dataclasses.replace(parent, pairs=prompts)

    @cached_property
    def series(self) -> CheckpointSeries:
        """Its checkpoints."""
        return open_series(self.folder, classes=[type(self.recipe.architecture.init)])

    @property
    def place(self) -> Path:
        """Where tables go: of a behaviour to where those on the same file of prompts are."""
        return self.folder if self.pairs is None else folder_of(self.series, self.pairs.file)

    @cached_property
    def batch(self) -> Batch:
        """What it and its branches are measured on."""
        return load_batch(self.recipe, self.folder) if self.pairs is None else series_batch(self.series, self.pairs)

    @cached_property
    def table(self) -> pd.DataFrame:
        """The table of the run itself, which its branches are compared with."""
        return self._measured(self.series, self.folder / FOLDER)

    @property
    def answer(self) -> Stages | None:
        """The stages of the run, in its own table, or in the one of its branches where it is not measured."""
        return load_stages(self.folder if (self.folder / TABLE).exists() else self.table, folder=self.folder)

    def check_start(self, start: int, advice: str) -> None:
        """Refuse a step that the run has not come to; the advice ends the message."""
        last = self.series.steps[-1]
        if not 0 <= start < last:
            raise ValueError(f"{self.series.name} has come to step {last}: {advice} than {last}, got {start}")

    def transitions_after(self, start: int) -> list[Transition]:
        """Return the transitions that the run's answer names, and that come after a step.

        Raises:
            ValueError: there are none, so that delays would be of nothing.
        """
        folder = self.folder
        if with_role(self.table, Role.BEHAVIOUR):
            if not (came := behaviour_after(self.table, start)):
                unsure = "the right answer is not surely preferred at the end, or was before"
                raise ValueError(f"no behaviour comes after step {start} of {folder.name}: {unsure}; train it longer")
            return came
        if not (after := transitions(self.answer, self.table, start)):
            raise ValueError(
                f"the answer names no transition of {folder.name} after step {start} that its loss or the attention of "
                f"a head shows (`stagewise stages {folder}`): begin at an earlier step, train it longer, or save more "
                "checkpoints (`stagewise densify`)"
            )
        return after

    def cost(self, branches: Sequence[Branch]) -> _Cost:
        """Return the cost of training branches, each from the newest state before its step or where it was
        interrupted.
        """
        stretches = [self._stretches(self._run(one)) for one in branches]
        trained = [stretch for of_run in stretches for stretch in of_run]
        updates = sum(stop - start for start, stop in trained)
        return _Cost(sum(map(bool, stretches)), updates, min((start for start, _ in trained), default=0))

    def compare(self, branches: Sequence[Branch]) -> pd.DataFrame:
        """Train branches, and return the delays of transitions in each, up to the run's last checkpoint; all are
        resampled together.
        """
        way = prepare(self.recipe, self.device, self.dtype).way
        check_way(self.folder, way, f"branch it with the versions in its {run_folder.RUN}")
        after = {start: self.transitions_after(start) for start in {one.start: None for one in branches}}
        tables: dict[str | None, pd.DataFrame] = {None: self.table}
        runs, blocks = [self._run(one) for one in branches], []
        for one, run in zip(branches, runs, strict=True):
            tables[one.name] = self._measured(self._trained(run), run.folder)
            found = delays(after[one.start], tables[one.paired], tables[one.name], one.start, one.without)
            same = {**dict.fromkeys(_AXES), "run": self.series.name, "step": one.start, **one.labels}
            same |= {"probe": "Intervention", "quantity": "delay"}
            blocks.append(pd.DataFrame([{**same, **each._asdict()} for each in found]))
        return _add_to_table(self.place, tidy(blocks))

    def _run(self, one: Branch) -> _Run:
        """Return where a branch is, numbered where another one has its name; it is saved where the run is."""
        steps, place, number = self.series.steps, self.folder / FOLDER / one.name, 1
        while True:
            # One that is there was saved where the run was then: what that has gained since is replayed.
            is_there = (place / run_folder.RUN).exists()
            save = run_folder.read_plan(place)["save"] if is_there else steps
            recipe = dataclasses.replace(one.recipe, plan=dataclasses.replace(one.recipe.plan, save=save, states=()))
            if not is_there or not differences(describe(recipe), run_folder.read_run(place)["recipe"]):
                return _Run(one, place, recipe, min(step for step in recipe.plan.saved_steps if step >= steps[-1]))
            number += 1
            place = place.with_name(f"{one.name}-{number}")

    def _stretches(self, run: _Run) -> list[tuple[int, int]]:
        """Return from which step to which a branch is trained or replayed."""
        plan = run.recipe.plan
        start = branch_start(self.folder, run.folder, plan, run.branch.start)
        saved = sorted({*run_folder.saved_steps(run.folder), *(each for each in plan.saved_steps if each <= run.until)})
        missing = [step for step in self.series.steps if step not in saved]
        replays = [(each.start, each.stop) for each in replays_of(missing, saved, [0])]
        return [*([(start, run.until)] if start < run.until else []), *replays]

    def _trained(self, run: _Run) -> CheckpointSeries:
        """Train a branch from the newest state before its step as far as the run, and save it where that is saved."""
        series, start = self.series, run.branch.start
        how: Any = {"progress": self.progress, "device": self.device, "dtype": self.dtype}
        run_folder.claim(run.folder, run.recipe, parent={"folder": "../..", "step": start})
        branch(self.folder, run.folder, run.recipe.plan, start)
        trained = train(run.recipe, run.folder, until=run.until, **how)
        for step in (each for each in trained.steps if each <= start and each in series.steps):
            check_bits(series.weights(step), trained.weights(step), f"{trained.name}, a branch of {series.name},", step)
        if set(series.steps) <= set(trained.steps):
            return trained
        return densify_steps(run.folder, series.steps, recipe=run.recipe, **how)

    def _measured(self, series: CheckpointSeries, folder: Path) -> pd.DataFrame:
        batch, parts = self.batch, folder / "parts"
        probes: list[AbstractProbe] = [Loss(), *([AttentionTo()] if batch.relations else [])]
        probes = [BehaviourCurve()] if isinstance(batch, Prompts) else probes
        with run_folder.measuring(parts):
            return measure(series, probes, batch, folder=parts, progress=self.progress, device=self.device)


def rows_of(table: pd.DataFrame, one: Branch) -> pd.DataFrame:
    """Return the rows of a branch in the table of its folder."""
    labels = {**dict.fromkeys(_AXES), **one.labels, "step": one.start}
    mine = pd.Series(True, index=table.index)
    for axis in _AXES:
        values = table.get(axis, pd.Series(None, index=table.index, dtype=object))
        mine &= values.isna() if labels[axis] is None else values == labels[axis]
    return table[mine]


def _add_to_table(folder: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Add rows to the table of a run's branches; those of the same ones are replaced, in their place."""
    path = folder / INTERVENTIONS
    if path.exists():
        old = read_parquet(path, "delete it: the branches are measured again")
        both = tidy([old, rows])
        place = both.groupby(_AXES, dropna=False, sort=False).ngroup()
        # A control that was asked for itself is none any more.
        asked = both["control"].where(both["control"].isin(_FIRST)).groupby(place).transform("first")
        both["control"] = asked.fillna(both["control"])
        kept = ~place.isin(place[len(old) :]) | (both.index >= len(old))
        rows = both.loc[place[kept].sort_values(kind="stable").index]
    rows = rows.dropna(axis="columns", how="all").reset_index(drop=True)
    run_folder.write(path, lambda partial: rows.to_parquet(partial, index=False))
    return rows
