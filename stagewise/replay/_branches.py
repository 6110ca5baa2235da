"""Runs that leave another one at a step: trained from its states, measured on its batch, and compared with it."""

import dataclasses
from collections.abc import Mapping, Sequence
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
from stagewise.replay.densifying import check_bits, densify_steps, replays_of
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


def opened(folder: Path, recipe: Recipe) -> CheckpointSeries:
    """Return the series of a run."""
    return open_series(folder, classes=[type(recipe.architecture.init)])


def check_start(series: CheckpointSeries, start: int, advice: str) -> None:
    """Refuse a step that a run has not come to; the advice ends the message."""
    last = series.steps[-1]
    if not 0 <= start < last:
        raise ValueError(f"{series.name} has come to step {last}: {advice} than {last}, got {start}")


def cost(folder: Path, branches: Sequence[Branch]) -> _Cost:
    """Return the cost of training branches, each from the newest state before its step or where it was interrupted."""
    series = opened(folder, branches[0].recipe)
    stretches = [_stretches(folder, _run(folder, one, series), series) for one in branches]
    trained = [stretch for of_run in stretches for stretch in of_run]
    updates = sum(stop - start for start, stop in trained)
    return _Cost(sum(map(bool, stretches)), updates, min((start for start, _ in trained), default=0))


def prompts_of(folder: Path, recipe: Recipe, pairs: str | Path | Pairs | None) -> Pairs | None:
    """Return the prompts of a file, in the words of a run; None of none."""
    return pairs_task(opened(folder, recipe), pairs, own=recipe.task) if isinstance(pairs, str | Path) else pairs


def place_of(folder: Path, recipe: Recipe, pairs: Pairs | None) -> Path:
    """Return where tables go: of a behaviour to where those on the same file of prompts are."""
    return folder if pairs is None else folder_of(opened(folder, recipe), pairs.file)


def own_table(folder: Path, recipe: Recipe, progress: bool, device: str, pairs: Pairs | None = None) -> pd.DataFrame:
    """Return the table of a run itself, which its branches are compared with."""
    series, batch = opened(folder, recipe), _batch(folder, recipe, pairs)
    return _measured(series, batch, folder / FOLDER / "parts", progress, device)


def answer_of(folder: Path, own: pd.DataFrame) -> Stages | None:
    """Return the stages of a run, in its own table, or in the one of its branches where it is not measured."""
    return load_stages(folder if (folder / TABLE).exists() else own, folder=folder)


def transitions_after(folder: Path, own: pd.DataFrame, start: int) -> list[Transition]:
    """Return the transitions that a run's answer names, and that come after a step.

    Raises:
        ValueError: there are none, so that delays would be of nothing.
    """
    if with_role(own, Role.BEHAVIOUR):
        if not (came := behaviour_after(own, start)):
            unsure = "the right answer is not surely preferred at the end, or was before"
            raise ValueError(f"no behaviour comes after step {start} of {folder.name}: {unsure}; train it longer")
        return came
    if not (after := transitions(answer_of(folder, own), own, start)):
        raise ValueError(
            f"the answer names no transition of {folder.name} after step {start} that its loss or the attention of a "
            f"head shows (`stagewise stages {folder}`): begin at an earlier step, train it longer, or save more "
            "checkpoints (`stagewise densify`)"
        )
    return after


def compare(
    folder: Path,
    recipe: Recipe,
    branches: Sequence[Branch],
    *,
    progress: bool,
    device: str,
    dtype: Dtype,
    pairs: Pairs | None = None,
) -> pd.DataFrame:
    """Train branches of a run, and return the delays of its transitions in each. Both are measured on the run's own
    probe batch, or on pairs, up to its last checkpoint, and resampled together.
    """
    check_way(folder, prepare(recipe, device, dtype).way, f"branch it with the versions in its {run_folder.RUN}")
    series, batch = opened(folder, recipe), _batch(folder, recipe, pairs)
    own = _measured(series, batch, folder / FOLDER / "parts", progress, device)
    after = {start: transitions_after(folder, own, start) for start in {one.start: None for one in branches}}
    tables: dict[str | None, pd.DataFrame] = {None: own}
    runs, blocks = [_run(folder, one, series) for one in branches], []
    for one, run in zip(branches, runs, strict=True):
        other = _trained(folder, run, series, progress, device, dtype)
        tables[one.name] = _measured(other, batch, run.folder / "parts", progress, device)
        found = delays(after[one.start], tables[one.paired], tables[one.name], one.start, one.without)
        same = {"run": series.name, "step": one.start, "probe": "Intervention", "quantity": "delay", **one.labels}
        blocks.append(pd.DataFrame([{**dict.fromkeys(_AXES), **same, **each._asdict()} for each in found]))
    return _add_to_table(place_of(folder, recipe, pairs), tidy(blocks))


def rows_of(table: pd.DataFrame, one: Branch) -> pd.DataFrame:
    """Return the rows of a branch in the table of its folder."""
    labels = {**dict.fromkeys(_AXES), **one.labels, "step": one.start}
    mine = pd.Series(True, index=table.index)
    for axis in _AXES:
        values = table.get(axis, pd.Series(None, index=table.index, dtype=object))
        mine &= values.isna() if labels[axis] is None else values == labels[axis]
    return table[mine]


def _run(folder: Path, one: Branch, series: CheckpointSeries) -> _Run:
    """Return where a branch is, numbered where another one has its name; it is saved where the other run is."""
    place, number = folder / FOLDER / one.name, 1
    while True:
        # One that is there was saved where the other one was then: what that has gained since is replayed.
        is_there = (place / run_folder.RUN).exists()
        save = run_folder.read_plan(place)["save"] if is_there else series.steps
        recipe = dataclasses.replace(one.recipe, plan=dataclasses.replace(one.recipe.plan, save=save, states=()))
        if not is_there or not differences(describe(recipe), run_folder.read_run(place)["recipe"]):
            break
        number += 1
        place = place.with_name(f"{one.name}-{number}")
    return _Run(one, place, recipe, min(step for step in recipe.plan.saved_steps if step >= series.steps[-1]))


def _stretches(folder: Path, run: _Run, series: CheckpointSeries) -> list[tuple[int, int]]:
    """Return from which step to which a branch is trained or replayed."""
    plan = run.recipe.plan
    start = branch_start(folder, run.folder, plan, run.branch.start)
    saved = sorted({*run_folder.saved_steps(run.folder), *(step for step in plan.saved_steps if step <= run.until)})
    missing = [step for step in series.steps if step not in saved]
    replays = [(each.start, each.stop) for each in replays_of(missing, saved, [0])]
    return [*([(start, run.until)] if start < run.until else []), *replays]


def _trained(
    folder: Path, run: _Run, series: CheckpointSeries, progress: bool, device: str, dtype: Dtype
) -> CheckpointSeries:
    """Train a branch from the newest state before its step as far as the other run, and save it where that is saved."""
    how: Any = {"progress": progress, "device": device, "dtype": dtype}
    run_folder.claim(run.folder, run.recipe, parent={"folder": "../..", "step": run.branch.start})
    branch(folder, run.folder, run.recipe.plan, run.branch.start)
    trained = train(run.recipe, run.folder, until=run.until, **how)
    for step in (each for each in trained.steps if each <= run.branch.start and each in series.steps):
        check_bits(series.weights(step), trained.weights(step), f"{trained.name}, a branch of {series.name},", step)
    if set(series.steps) <= set(trained.steps):
        return trained
    return densify_steps(run.folder, series.steps, recipe=run.recipe, **how)


def _batch(folder: Path, recipe: Recipe, pairs: Pairs | None) -> Batch:
    return load_batch(recipe, folder) if pairs is None else series_batch(opened(folder, recipe), pairs)


def _measured(series: CheckpointSeries, batch: Batch, parts: Path, progress: bool, device: str) -> pd.DataFrame:
    probes: list[AbstractProbe] = [Loss(), *([AttentionTo()] if batch.relations else [])]
    probes = [BehaviourCurve()] if isinstance(batch, Prompts) else probes
    with run_folder.measuring(parts):
        return measure(series, probes, batch, folder=parts, progress=progress, device=device)


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
