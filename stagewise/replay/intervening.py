"""Which head a stage needs: a run continues from a checkpoint with a head held, and is compared with itself."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch

from stagewise.checkpoints import run_folder
from stagewise.checkpoints._training_state import branch, branch_start, check_way
from stagewise.checkpoints.run_folder import INTERVENTIONS
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.findings.delays import Delay, delays, transitions
from stagewise.measurement.engine import measure
from stagewise.measurement.probe_batch import load_batch
from stagewise.plan import ClampHead
from stagewise.probe import AbstractProbe
from stagewise.probes import AttentionTo, Loss
from stagewise.recipe import Recipe
from stagewise.replay._matched_controls import ClampedRun, with_controls
from stagewise.replay.densifying import densify_steps, recipe_at, replays_of
from stagewise.table import Head, tidy
from stagewise.task import Batch
from stagewise.training import Dtype, prepare, train
from stagewise.words._delays import delay_in_words, held_in_words, transition

_FOLDER = "interventions"
"""In a run folder: the folders of the runs that continue with a head held, named by it."""

_SILENT = ("out", "uniform", "relation")
"""Kinds of clamps under which a head's attention says nothing of what is learned: it is not counted as any head's."""


def intervene(
    folder: str | Path,
    clamps: Sequence[ClampHead],
    *,
    recipe: Recipe | None = None,
    controls: bool = True,
    progress: bool = True,
    device: str = "cpu",
    dtype: Dtype = "float32",
) -> pd.DataFrame:
    """Train on from a run's checkpoint with a head held, and say how much later each transition comes.

    The paired run has the bits of the run up to the clamp, and the same data after it. Both are measured on the same
    probe batch, and resampled together. A delay is the difference of the steps at which a head attends to a relation,
    or the loss has fallen half-way or nine tenths of the way: see `findings.delays`. The controls are the same clamp
    on another head, the one whose values have the nearest norm, and a kick of the head's norm in a random direction.
    A run that is not finished is compared up to its last checkpoint.
    What was done before is not done again; all delays of a run folder are kept in one table, which its report shows.

    Args:
        folder: the run folder.
        clamps: each a run of its own.
        recipe: of the run; None reads it from the folder.
        controls: whether to make the controls of each.
        progress: show bars.
        device: as the run was trained on.
        dtype: as the run was trained in.

    Returns a row an intervention and transition: `layer`, `head`, `kind`, `relation` (of a head that is held at one),
    `control`, `step` (the clamp's start), `transition`, and the delay in optimiser steps as `value`, `lo`, `hi`; inf
    where it did not come by the last step.

    Raises:
        ValueError: what is no list of clamps; the model has no such head, the task no such relation, or the run holds
            clamps itself; no transition comes after a clamp's start, or a kick there would move nothing; or this
            version, device, processor or number of threads gives other bits up to it.
        FileNotFoundError: the folder holds no run.
    """
    _check_clamps(clamps)
    folder = Path(folder)
    recipe = recipe or recipe_at(folder)
    if recipe.plan.clamps:
        raise ValueError(f"{folder} is a run with heads held: intervene in the run that it is compared with")
    check_way(folder, prepare(recipe, device, dtype).way, f"intervene with the versions in its {run_folder.RUN}")
    series = open_series(folder, classes=[type(recipe.architecture.init)])
    runs, batch = with_controls(clamps, series, recipe, controls), load_batch(recipe, folder)
    own = _measured(series, batch, folder / _FOLDER / "parts", progress, device)
    for clamp in clamps:
        _check_transitions(own, clamp.start, series)
    blocks = []
    for one in runs:
        paired = _paired(folder, recipe, one, series, progress, device, dtype)
        other = _measured(paired, batch, _run_folder(folder, one) / "parts", progress, device)
        without: list[Head] = [(one.clamp.layer, one.clamp.head)] if one.clamp.kind in _SILENT else []
        found = delays(own, other, one.clamp.start, without)
        blocks.append(_rows(series.name, one, found))
    return _add_to_table(folder, tidy(blocks))


class _Cost(NamedTuple):
    """What an intervention takes: runs that are trained, their updates in all, and the earliest step of these."""

    runs: int
    updates: int
    start: int

    def __str__(self) -> str:
        if not self.runs:
            return "all runs are there already"
        are = "run is" if self.runs == 1 else "runs are"
        return f"{self.runs} {are} trained, from the state of step {self.start} on: {self.updates} updates in all"


def cost(folder: Path, clamps: Sequence[ClampHead], recipe: Recipe, *, controls: bool = True) -> _Cost:
    """Return what an intervention takes, before anything is done; what was done before is not done again.

    A run starts where the newest state before its clamp was kept, or where it was interrupted.
    """
    series = open_series(folder, classes=[type(recipe.architecture.init)])
    stretches = [_stretches(folder, recipe, one, series) for one in with_controls(clamps, series, recipe, controls)]
    trained = [stretch for of_run in stretches for stretch in of_run]
    updates = sum(stop - start for start, stop in trained)
    return _Cost(sum(map(bool, stretches)), updates, min((start for start, _ in trained), default=0))


def _stretches(folder: Path, recipe: Recipe, one: ClampedRun, series: CheckpointSeries) -> list[tuple[int, int]]:
    """Return from which step to which a paired run is trained or replayed."""
    new, clamped, until = _clamped_run(folder, recipe, one, series)
    start = branch_start(folder, new, clamped.plan, one.clamp.start)
    saved = sorted({*run_folder.saved_steps(new), *(step for step in clamped.plan.saved_steps if step <= until)})
    missing = [step for step in series.steps if step not in saved]
    replays = [(each.start, each.stop) for each in replays_of(missing, saved, [0])]
    return [*([(start, until)] if start < until else []), *replays]


def _check_clamps(clamps: object) -> None:
    listed = isinstance(clamps, Sequence) and all(isinstance(clamp, ClampHead) for clamp in clamps)
    if not (clamps and listed):
        raise ValueError(f"clamps are a list, as in [ClampHead(layer=0, head=1, start=120)], got {clamps!r}")


def _check_transitions(own: pd.DataFrame, start: int, series: CheckpointSeries) -> None:
    """Refuse a clamp whose delays would be of nothing, before anything is trained."""
    if not transitions(own, start):
        raise ValueError(
            f"no transition of {series.name} comes after step {start}: up to its last checkpoint, step "
            f"{series.steps[-1]}, its loss hardly falls any more, and no head begins to attend to a relation. Hold the "
            "head from an earlier step on"
        )


def _paired(
    folder: Path, recipe: Recipe, one: ClampedRun, series: CheckpointSeries, progress: bool, device: str, dtype: Dtype
) -> CheckpointSeries:
    """Train the run with the clamp, from the newest state before it; it is saved where the other one is, and as far."""
    new, clamped, until = _clamped_run(folder, recipe, one, series)
    run_folder.claim(new, clamped)
    branch(folder, new, clamped.plan, one.clamp.start)
    paired = train(clamped, new, progress=progress, device=device, dtype=dtype, until=until)
    _check_bits(series, paired, one.clamp.start)
    if set(series.steps) <= set(paired.steps):
        return paired
    return densify_steps(new, series.steps, recipe=clamped, progress=progress, device=device, dtype=dtype)


def _clamped_run(folder: Path, recipe: Recipe, one: ClampedRun, series: CheckpointSeries) -> tuple[Path, Recipe, int]:
    """Return the folder of the run with the clamp, its recipe, and the step up to which it is trained."""
    new = _run_folder(folder, one)
    # One that is there was saved where the other one was then: what that has gained since is replayed.
    save = run_folder.read_plan(new)["save"] if (new / run_folder.RUN).exists() else series.steps
    plan = dataclasses.replace(recipe.plan, clamps=(one.clamp,), save=save, states=())
    until = min(step for step in plan.saved_steps if step >= series.steps[-1])
    return new, dataclasses.replace(recipe, plan=plan), until


def _run_folder(folder: Path, one: ClampedRun) -> Path:
    """Return the folder of the run with the clamp: its name, numbered where another relation of these words has it."""
    place, number = folder / _FOLDER / one.name, 1
    while (place / run_folder.RUN).exists():
        (held,) = run_folder.read_plan(place)["clamps"]
        if held.get("relation") == one.clamp.relation:
            break
        number += 1
        place = place.with_name(f"{one.name}-{number}")
    return place


def _check_bits(series: CheckpointSeries, paired: CheckpointSeries, start: int) -> None:
    """Refuse a run that is another one before its head is held."""
    for step in (each for each in paired.steps if each <= start and each in series.steps):
        one, other = series.weights(step), paired.weights(step)
        if different := [name for name in one if not torch.equal(one[name], other[name])]:
            raise ValueError(
                f"{paired.name} has other bits of {different[0]} than {series.name} at step {step}, and its head is "
                f"held from step {start} on: delete it, and train it with the versions in {run_folder.RUN}, on the "
                "processor, the device, with the dtype and the number of threads that the run was trained with; torch "
                f"takes {torch.get_num_threads()} here"
            )


def _measured(series: CheckpointSeries, batch: Batch, parts: Path, progress: bool, device: str) -> pd.DataFrame:
    probes: list[AbstractProbe] = [Loss(), *([AttentionTo()] if batch.relations else [])]
    with run_folder.measuring(parts):
        return measure(series, probes, batch, folder=parts, progress=progress, device=device)


def _rows(run: str, one: ClampedRun, found: Sequence[Delay]) -> pd.DataFrame:
    clamp = one.clamp
    known = {"run": run, "step": clamp.start, "probe": "Intervention", "quantity": "delay", "control": one.control}
    where = {"layer": clamp.layer, "head": clamp.head, "kind": clamp.kind, "relation": clamp.relation}
    return pd.DataFrame(
        [
            {**known, **where, "transition": each.what, "value": each.value, "lo": each.lo, "hi": each.hi}
            for each in found
        ]
    )


def _add_to_table(folder: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Add rows to the table of a run's interventions; those of the same ones are replaced, in their place."""
    path, axes = folder / INTERVENTIONS, ["layer", "head", "kind", "relation", "step", "transition"]
    if path.exists():
        both = tidy([pd.read_parquet(path), rows])
        places = both.groupby(axes, dropna=False, sort=False).ngroup()
        rows = both.sort_values("control", key=lambda names: names == "head", kind="stable")
        rows = rows.drop_duplicates(axes, keep="last")  # a control that was asked for itself is none any more
        rows = rows.loc[places[rows.index].sort_values().index]
    rows = rows.dropna(axis="columns", how="all").reset_index(drop=True)
    run_folder.write(path, lambda partial: rows.to_parquet(partial, index=False))
    return rows


def in_words(row: "pd.Series[Any]") -> str:
    """Return a row in a sentence.

    >>> row = {"layer": 0, "head": 1, "kind": "out", "step": 120, "control": "head", "transition": "loss 0.5"}
    >>> in_words(pd.Series({**row, "value": 45.0, "lo": 30.0, "hi": 60.0}))
    'L0H1 out from 120 (head): the loss falls half-way to its end 45 [30, 60] steps later'
    >>> in_words(pd.Series({**row, "transition": "attention to I(2)", "value": 45.0, "lo": 30.0, "hi": 60.0}))
    'L0H1 out from 120 (head): another head attends to I(2) 45 [30, 60] steps later'
    """
    what = transition(str(row["transition"]), without=row["kind"] in _SILENT)
    name = f"{held_in_words(row.to_dict())} from {row['step']} ({row['control']})"
    return f"{name}: {what} {delay_in_words(row['value'], row['lo'], row['hi'])}"
