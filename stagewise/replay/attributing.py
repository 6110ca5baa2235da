"""Which predictions made a transition: classes of them left out of replays."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from stagewise.recipe import Recipe
from stagewise.replay._branches import Branch, Parent, rows_of
from stagewise.replay._changes import changed_run, left_out, named_classes
from stagewise.replay._delays import Transition
from stagewise.training import Dtype
from stagewise.words import at

Replay = tuple[tuple[str, ...], Branch]
"""The classes that a branch is without."""


def attribute(
    folder: str | Path,
    transition: str,
    classes: Sequence[str],
    start: int,
    stop: int | None = None,
    *,
    recipe: Recipe | None = None,
    orders: int = 2,
    progress: bool = True,
    device: str = "cpu",
    dtype: Dtype = "float32",
) -> pd.DataFrame:
    """Leave classes of predictions out of a run's training, and say how much later a transition comes without them.

    The run is replayed without one half of the classes, and without the other. A half without which the transition
    comes at another time is divided again, down to single classes: one of 16 is found in 8 replays. A half that moves
    it no more than another order of the batches does is not divided, so that a class which speeds it up may hide
    another that slows it down. Replays are branches, of which nothing is done twice: see `branch`.

    Args:
        folder: the run folder.
        transition: its number in the run's answer, from 1 on, or a label of it, as "transition 2" or "attention to
            I(2)" (see `intervene`); the loss stands for the number where it shows the transition.
        classes: names of `probes.LossByToken`, or what they begin with, as "of token" or "at position".
        start: the first update without them.
        stop: the first update with them again; None for no such.
        recipe: of the run; None reads it from the folder.
        orders: in which the run is replayed with all classes, as the noise of any change.
        progress, device, dtype: as in `branch`.

    Returns a row a replay, other orders first: `without` says what it is without, `classes` how many these are; the
    delay in optimiser steps is `value`, `lo`, `hi` (inf where the transition did not come any more); `apart` whether
    its interval lies beyond 0 and those of all other orders.

    Raises:
        ValueError: no such transition after the step, fewer than two such classes, or the errors of `branch`.
        FileNotFoundError: the folder holds no run.
    """
    parent = Parent.of(folder, recipe, progress=progress, device=device, dtype=dtype)
    noise, waiting = first_replays(parent, classes, start, stop, orders)
    named = transition_named(parent, transition, start)
    lines = [{"classes": 0, **_delay(parent, one, named), "apart": False} for one in noise]
    earliest, latest = min(0.0, *(line["lo"] for line in lines)), max(0.0, *(line["hi"] for line in lines))
    while waiting:
        names, one = waiting.pop(0)
        line = _delay(parent, one, named)
        apart = line["lo"] >= latest or line["hi"] <= earliest  # intervals are half open
        lines.append({"classes": len(names), **line, "apart": apart})
        if apart and len(names) > 1:
            waiting += _halves(parent.recipe, names, start, stop)
    return pd.DataFrame(lines)


def transition_named(parent: Parent, name: str, start: int) -> Transition:
    """Return a transition that comes after a step, by its number in the answer or its label."""
    after = parent.transitions_after(start)
    for one in after:
        if name in (str(one.event), one.label):
            return one
    known = ", ".join(f"{one.label} (number {one.event}, {at(one.comes)})" for one in after)
    raise ValueError(f"no transition {name!r} comes after step {start}; there are {known}")


def first_replays(
    parent: Parent, classes: Sequence[str], start: int, stop: int | None, orders: int
) -> tuple[list[Branch], list[Replay]]:
    """Return the replays in other orders, and those without the halves of all classes."""
    if orders < 1:
        raise ValueError(f"the noise is that of one other order of the batches at least, got {orders}")
    parent.check_start(start, "leave classes out from an earlier one")
    noise = [changed_run(parent.recipe, {}, start, order, "batch order") for order in range(1, orders + 1)]
    return noise, _halves(parent.recipe, [*named_classes(parent, classes)], start, stop)


def _halves(recipe: Recipe, names: Sequence[str], start: int, stop: int | None) -> list[Replay]:
    middle = (len(names) + 1) // 2
    return [(half, left_out(recipe, half, start, stop)) for half in (tuple(names[:middle]), tuple(names[middle:]))]


def _delay(parent: Parent, one: Branch, named: Transition) -> dict[str, Any]:
    """Return how much later a transition comes in a branch."""
    rows = rows_of(parent.compare([one]), one)
    mine = rows[(rows["event"] == named.event) & (rows["transition"] == named.label)]
    return {"without": one.labels["change"], **mine[["value", "lo", "hi"]].iloc[0]}
