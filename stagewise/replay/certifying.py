"""Certificates: what each transition of a run needs, said of every head and of classes of predictions, by replays."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from stagewise.checkpoints.run_folder import CERTIFICATE, write
from stagewise.plan import ClampHead
from stagewise.recipe import Recipe
from stagewise.replay._branches import Branch, Parent, rows_of
from stagewise.replay._changes import changed_run, controls_of, in_orders, left_out, named_classes, with_controls
from stagewise.replay._delays import Transition
from stagewise.table import head_label
from stagewise.tasks.pairs import Pairs
from stagewise.training import Dtype

Verdict = Literal["needed", "speeds it up", "does not matter", "cannot tell"]

SMALL = 0.2
"""Part of a transition's own time below which a delay does not matter: with ten checkpoints before it, an interval
that holds no delay at all, which ends a checkpoint on either side, is half as wide."""

WAITED = 1.0
"""Parts of a transition's own time for which a run must go on without it before it counts as one that never comes:
another head that takes over has then had as long again as the first one took. One that takes longer is told by a curve
that has not stalled: see `_delays`."""


def certify(
    folder: str | Path,
    classes: Sequence[str] = (),
    *,
    start: int | None = None,
    seeds: int = 1,
    pairs: str | Path | Pairs | None = None,
    recipe: Recipe | None = None,
    progress: bool = True,
    device: str = "cpu",
    dtype: Dtype = "float32",
) -> pd.DataFrame:
    """Say of every transition of a run whether it needs each head, and each of some classes of predictions.

    Each head is silenced, and each class left out of training, from the last checkpoint before the transition begins:
    see `intervene`. The verdict follows from the delay beside those of its controls. They are the same
    on the matched head and a kick, or the class of the nearest size left out; and nothing but other orders of the
    batches. *Needed*: the transition does not come any more, though the run goes on as long again, its curve has
    stalled, and it comes under the controls. *Speeds it up*: the delay's interval lies above 0 and beyond the
    controls'. *Does not matter*: the interval lies within a fifth of the transition's own time. Else it *cannot tell*.

    Args:
        folder: the run folder.
        classes: names of `probes.LossByToken`, or what they begin with, as "of token" or "at position".
        start: the first update without them; None for the last checkpoint before each transition begins.
        seeds: orders of the batches, the run's own first: what is said, is true in each.
        pairs: a file of prompts with a right and a wrong answer, whose behaviour is certified in place of the answer's
            transitions: it comes where the logit difference gets half-way from 0 to where it is at the end.
            Its tables lie where `analyse` puts those on the file.
        recipe: of the run; None reads it from the folder.
        progress, device, dtype: as in `branch`.

    Returns a row a transition and subject, a head as "L0H1" or a class: the `transition` and the number of its `event`
    (see `intervene`), the step at which it `comes`, the `step` from which on it was without the `subject`, the
    `verdict`, the delay as `value`, `lo`, `hi` in optimiser steps, those of the controls as `matched_lo`, `kick_lo`,
    `order_lo` and so on, the `matched` subject, and `seeds`.
    `tables/certificate.parquet` keeps it.

    Raises:
        ValueError: no transition comes after the start, fewer than two such classes, or the errors of `intervene`.
        FileNotFoundError: the folder holds no run.
    """
    parent = Parent.of(folder, recipe, pairs, progress=progress, device=device, dtype=dtype)
    experiments = experiments_of(parent, classes, start, seeds)
    table = parent.compare([one for experiment in experiments for one in experiment.branches])
    found = pd.DataFrame([line for experiment in experiments for line in _lines(experiment, table, seeds)])
    write(parent.place / CERTIFICATE, lambda partial: found.to_parquet(partial, index=False))
    return found


class _Subject(NamedTuple):
    """Something that is taken away: its branches, an order each, those of a kick of its size, and what matches it."""

    own: Sequence[Branch]
    kicks: Sequence[Branch]
    matched: str | None


class _Experiment(NamedTuple):
    """The replays from a step on: the transitions that they are for, other orders of the batches, and the subjects."""

    transitions: Sequence[Transition]
    orders: Sequence[Branch]
    subjects: Mapping[str, _Subject]

    @property
    def branches(self) -> list[Branch]:
        """All runs, the unchanged ones first, which others are compared with."""
        return [*self.orders, *(one for each in self.subjects.values() for one in (*each.own, *each.kicks))]


def experiments_of(parent: Parent, classes: Sequence[str], start: int | None, seeds: int) -> list[_Experiment]:
    """Return the replays that certify a run, by their first step; the run itself is measured for it."""
    if seeds < 1:
        raise ValueError(f"one order of the batches at least is the run's own, got {seeds}")
    parent.check_start(start or 0, "certify from an earlier step")
    # At step 0 values may be zero, and a kick of their norm would move nothing.
    first = parent.series.steps[1]
    after = parent.transitions_after(first if start is None else start)
    coming = [each._replace(begins=max(each.begins, first) if start is None else start) for each in after]
    experiments = []
    for begins, of in groupby(sorted(coming, key=lambda each: each.begins), key=lambda each: each.begins):
        orders = [changed_run(parent.recipe, {}, begins, order, "batch order") for order in range(1, max(seeds, 2))]
        names = (None, *(one.name for one in orders))
        subjects = dict(_heads(parent, begins, names[:seeds]))
        if classes:
            subjects |= _classes(parent, classes, begins, names[:seeds])
        experiments.append(_Experiment(list(of), orders, subjects))
    return experiments


def _heads(parent: Parent, start: int, paired: Sequence[str | None]) -> Iterator[tuple[str, _Subject]]:
    model = parent.series.architecture
    clamps = [ClampHead(layer, head, start) for layer in range(model.n_layers) for head in range(model.n_heads)]
    branches = {one.recipe.plan.clamps: one for one in with_controls(parent, clamps)}
    for clamp in clamps:
        controls = {control: other for other, control in controls_of(clamp, parent.series)}
        other, kick = controls.get("another head"), controls["random direction"]
        matched = None if other is None else head_label(other.layer, other.head)
        own, kicks = (in_orders(branches[(each,)], paired) for each in (clamp, kick))
        yield head_label(clamp.layer, clamp.head), _Subject(own, kicks, matched)


def _classes(parent: Parent, classes: Sequence[str], start: int, paired: Sequence[str | None]) -> dict[str, _Subject]:
    sizes, subjects = named_classes(parent, classes), {}
    for name, size in sizes.items():
        nearest = min((each for each in sizes if each != name), key=lambda each: abs(sizes[each] - size))
        own = in_orders(left_out(parent.recipe, (name,), start), paired)
        subjects[f"predictions {name}"] = _Subject(own, (), f"predictions {nearest}")
    return subjects


def _lines(experiment: _Experiment, table: pd.DataFrame, seeds: int) -> Iterator[dict[str, Any]]:
    for one in experiment.transitions:
        rows = table[(table["event"] == one.event) & (table["transition"] == one.label)]

        def evidence(branches: Sequence[Branch], rows: pd.DataFrame = rows) -> Evidence:
            return joined(pd.concat([rows_of(rows, one) for one in branches]))

        orders = evidence(experiment.orders)
        delays = {name: evidence(each.own) for name, each in experiment.subjects.items()}
        for name, each in experiment.subjects.items():
            controls = {"order": orders}
            if each.matched:
                controls["matched"] = delays[each.matched]
            if each.kicks:
                controls["kick"] = evidence(each.kicks)
            delay = delays[name]
            decided = verdict(delay, list(controls.values()), one.comes)
            ends = {f"{control}_{end}": getattr(of, end) for control, of in controls.items() for end in ("lo", "hi")}
            known = {"transition": one.label, "event": one.event, "comes": one.comes, "step": one.begins}
            said = {"subject": name, "verdict": decided, "matched": each.matched, "seeds": seeds}
            yield {**known, **said, **{end: getattr(delay, end) for end in ("value", "lo", "hi")}, **ends}


class Evidence(NamedTuple):
    """A delay over all orders of the batches, steps: the mean, an interval that holds each of them, and whether the
    transition came, and was on its way, in `never` a one.
    """

    value: float
    lo: float
    hi: float
    never: bool


def joined(rows: pd.DataFrame) -> Evidence:
    """Return the evidence in rows of `intervene`, a row an order of the batches."""
    never = bool((np.isinf(rows["value"]) & (rows["moving"] == 0)).all())
    return Evidence(float(rows["value"].mean()), float(rows["lo"].min()), float(rows["hi"].max()), never)


def verdict(delay: Evidence, controls: Sequence[Evidence], time: float) -> Verdict:
    """Return the verdict on what was taken away, beside the transition's own time; controls include another order
    alone.

    Needed: the transition never comes, nor is it on its way, and with all controls it comes before the delay's lower
    end. It speeds it up: the delay's interval lies above 0 and beyond those of all controls. It does not matter: the
    interval lies within SMALL of the transition's own time, on both sides of 0.
    """
    beyond = delay.lo >= max(0.0, *(control.hi for control in controls))  # intervals are half open
    if beyond and delay.never and delay.lo >= WAITED * time:
        return "needed"
    if beyond:
        return "speeds it up"
    if -SMALL * time <= delay.lo and delay.hi <= SMALL * time:
        return "does not matter"
    return "cannot tell"
