"""Dependence of stages on the recipe and on heads: a run continues from a checkpoint changed, beside itself."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from stagewise.plan import ClampHead
from stagewise.recipe import Recipe
from stagewise.replay._branches import Branch, Parent
from stagewise.replay._changes import changed_run, with_controls
from stagewise.training import Dtype


def branch(
    folder: str | Path,
    change: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    start: int,
    *,
    recipe: Recipe | None = None,
    controls: bool = True,
    seeds: int = 1,
    progress: bool = True,
    device: str = "cpu",
    dtype: Dtype = "float32",
) -> pd.DataFrame:
    """Train on from a run's checkpoint with fields of its recipe changed, and say how much later each transition comes.

    A branch is a run folder in `interventions/` of the run's, and names it in its run.json. It has the run's bits up to
    the step, and the same batches in the same order after it, as far as the change leaves them: with no change it is
    the run. Both are measured on the run's own probe batch and compared as `intervene` does. The controls are the same
    change from half of the step on, and no change but the run's own batches in another order, as the noise of any
    change. Finished branches are not trained again, and interrupted ones resume.

    Args:
        folder: the run folder.
        change: values by the paths of fields, as in {"plan.learning_rate": 0.02}, numbers or schedules; or several
            such, each a branch of its own. The fields are those that `Recipe` takes schedules of; heads are held by
            {"plan.clamps": (ClampHead(0, 1, start=120),)}.
        start: the first update with the change.
        recipe: of the run; None reads it from the folder.
        controls: whether to make the controls.
        seeds: orders of the batches after the step: the run's own one, and others, in which the changed run is compared
            with the unchanged one. `find_delays` joins them.
        progress: show bars.
        device: as the run was trained on.
        dtype: as the run was trained in.

    Returns the rows of `intervene`, with `change` as text, the number of the order as `seed` (0 for the run's own), and
    as `control` "change", "another time" or "batch order".

    Raises:
        ValueError: the recipe has no such field, or one that stays as it is in training; a value that it does not take;
            the run has not come to the step; no transition comes after it; or this version, device, processor or
            number of threads gives other bits up to it.
        FileNotFoundError: the folder holds no run.
    """
    parent = Parent.of(folder, recipe, progress=progress, device=device, dtype=dtype)
    changes = [change] if isinstance(change, Mapping) else change
    return parent.compare(branches_of(parent, changes, start, controls=controls, seeds=seeds))


def branches_of(
    parent: Parent, changes: Sequence[Mapping[str, Any]], start: int, *, controls: bool, seeds: int
) -> list[Branch]:
    """Return the runs that some changes take: the unchanged ones in other orders first, then each with its controls."""
    if not changes or seeds < 1:
        raise ValueError(f"a branch takes one change or more and at least one seed, got {changes!r} and {seeds}")
    parent.check_start(start, "branch from an earlier one")
    recipe, orders = parent.recipe, range(1, max(seeds, 2 if controls else 1))
    branches = {one.name: one for one in (changed_run(recipe, {}, start, order, "batch order") for order in orders)}
    for change in changes:
        for order in range(seeds):
            one = changed_run(recipe, change, start, order, "change")
            branches[one.name] = one._replace(paired=changed_run(recipe, {}, start, order, "").name if order else None)
        if controls and change and start > 1:
            one = changed_run(recipe, change, start // 2, 0, "another time")
            branches.setdefault(one.name, one)
    return list(branches.values())


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
    probe batch, and resampled together. The transitions are those of the run's answer (`find_stages`). A delay is the
    difference of the steps at which the loss, or the largest attention of any head to a relation, is where it is
    half-way through a transition of the undisturbed run: see `replay._delays`. The controls are the same clamp on
    another head, the one whose values have the nearest norm, and a kick of the head's norm in a random direction.
    A run that is not finished is compared up to its last checkpoint.
    Finished branches are not trained again; all delays of a run folder are kept in one table, which its report shows.

    Args:
        folder: the run folder.
        clamps: each a run of its own.
        recipe: of the run; None reads it from the folder.
        controls: whether to make the controls of each.
        progress, device, dtype: as in `branch`.

    Returns a row an intervention and transition: `layer`, `head`, `kind`, `relation` (of a head that is held at one),
    `control`, `step` (the clamp's start), `event` (the number of a transition in the answer), `transition`
    ("transition 2" is that of the loss, "attention to I(2)" that of a relation), and the delay in optimiser steps as
    `value`, `lo`, `hi`; inf where it did not come by the last step, with `moving` 1 where its curve was on its way.

    Raises:
        ValueError: what is no list of clamps; the model has no such head, the task no such relation, or the run holds
            clamps itself; no transition comes after a clamp's start, or a kick there would move nothing; or this
            version, device, processor or number of threads gives other bits up to it.
        FileNotFoundError: the folder holds no run.
    """
    listed = isinstance(clamps, Sequence) and all(isinstance(clamp, ClampHead) for clamp in clamps)
    if not (clamps and listed):
        raise ValueError(f"clamps are a list, as in [ClampHead(layer=0, head=1, start=120)], got {clamps!r}")
    parent = Parent.of(folder, recipe, progress=progress, device=device, dtype=dtype)
    return parent.compare(with_controls(parent, clamps, controls))
