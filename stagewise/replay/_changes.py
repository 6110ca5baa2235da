"""The runs that leave another one by a change: fields of its recipe, batches, classes, heads held; their controls."""

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stagewise import models
from stagewise.checkpoints import State
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement.probe_batch import load_batch
from stagewise.models import Clamps, targets
from stagewise.plain_text import file_part
from stagewise.plan import ClampHead
from stagewise.prediction_classes import prediction_classes
from stagewise.recipe import Recipe, describe
from stagewise.replay._branches import Branch, Parent
from stagewise.table import Head, check_head, head_label
from stagewise.value_schedules import AbstractSchedule, Shuffled, Steps
from stagewise.words import SILENT, held_in_words, left_out_in_words

_CLAMPS = "plan.clamps"


def changed_run(recipe: Recipe, change: Mapping[str, Any], start: int, order: int, control: str) -> Branch:
    """Return a branch with fields of the recipe changed from a step on, or without, in an order of the batches."""
    changed = _changed(recipe, change, start)
    words = ", ".join(f"{path}={_in_words(value)}" for path, value in change.items())
    label = words or ("another batch order" if order else "no change")
    part = file_part(re.sub(r"[^A-Za-z0-9_.=+-]+", "-", label))
    silent = [(clamp.layer, clamp.head) for clamp in change.get(_CLAMPS, ()) if clamp.kind in SILENT]
    labels = {"change": label, "seed": 0, "control": control}
    return in_order(Branch(changed, start, f"{part}-{start}", labels, silent), order)


def in_order(one: Branch, order: int) -> Branch:
    """Return a branch whose batches come in another order from its start on; order 0 is the run's own."""
    if not order:
        return one
    shuffled = {"plan.draw": Shuffled(one.start, one.recipe.plan.steps, order)}
    recipe = dataclasses.replace(one.recipe, schedules={**shuffled, **(one.recipe.schedules or {})})
    return one._replace(recipe=recipe, name=f"{one.name}-order-{order}", labels={**one.labels, "seed": order})


def _in_words(value: Any) -> str:
    if isinstance(value, AbstractSchedule | str):
        return str(value)
    if isinstance(value, Sequence) and any(isinstance(each, ClampHead) for each in value):
        return " and ".join(held_in_words(dataclasses.asdict(each)) for each in value)
    return json.dumps(describe(value))


def _changed(recipe: Recipe, change: Mapping[str, Any], start: int) -> Recipe:
    """Return the recipe whose fields are as they are up to a step, and have other values from there on."""
    values = {path: value for path, value in change.items() if path != _CLAMPS}
    schedules = dict(recipe.schedules or {})
    for path, value in values.items():
        before = schedules[path] if path in schedules else recipe.field(path)
        schedules[path] = Steps((before, value), (start,))
    clamps = (*(recipe.plan.clamps or ()), *change.get(_CLAMPS, ()))
    if early := [clamp for clamp in change.get(_CLAMPS, ()) if clamp.start < start]:
        raise ValueError(f"a head is held from the step of the branch on, {start}, or later; got {early[0].start}")
    plan = dataclasses.replace(recipe.plan, clamps=clamps or None)
    return dataclasses.replace(recipe, plan=plan, schedules=schedules or None)


def in_orders(one: Branch, paired: Sequence[str | None]) -> list[Branch]:
    """Return a branch in the run's own order of the batches and others, compared with the unchanged run in each."""
    return [in_order(one, order)._replace(paired=name) for order, name in enumerate(paired)]


def named_classes(parent: Parent, classes: Sequence[str]) -> dict[str, int]:
    """Return the classes with these names, or whose names begin so, and how many predictions of each the run's probe
    batch has.
    """
    recipe, batch = parent.recipe, load_batch(parent.recipe, parent.folder)
    members = prediction_classes(batch, range(recipe.task.d_vocab))
    known = {name: size for name, of in members.items() if (size := int((of & batch.scored).sum()))}
    begin = tuple({*classes} - {*known})
    chosen = {name: size for name, size in known.items() if name in classes or name.startswith(begin)}
    if len(chosen) < 2:
        there = f"{list(classes)} are {list(chosen)}; there are {list(known)}"
        raise ValueError(f"two classes at least are told apart, {there}")
    return chosen


def left_out(recipe: Recipe, names: tuple[str, ...], start: int) -> Branch:
    """Return the branch that is trained without some classes of predictions."""
    one = changed_run(recipe, {"plan.leave_out": names}, start, 0, "left out")
    return one._replace(labels={**one.labels, "change": left_out_in_words(names)})


def with_controls(parent: Parent, clamps: Sequence[ClampHead], controls: bool = True) -> list[Branch]:
    """Return the runs that some clamps take, each once: their own, and those of their controls."""
    recipe, series = parent.recipe, parent.series
    if recipe.plan.clamps:
        raise ValueError(f"{parent.folder} is a run with heads held: intervene in the run that it is compared with")
    targets(recipe.task, clamps)
    dataclasses.replace(recipe.plan, clamps=tuple(clamps))  # raises where one starts too late
    for clamp in clamps:
        check_head(clamp.layer, clamp.head, series.architecture.n_layers, series.architecture.n_heads, series.name)
        parent.check_start(clamp.start, "hold the head from an earlier one on")
    runs = dict.fromkeys(clamps, "head")
    for other, control in (each for clamp in clamps for each in controls_of(clamp, series) if controls):
        runs.setdefault(other, control)  # a control that is asked for itself is one run
    for clamp, control in runs.items():
        if clamp.kind == "kick":
            _check_kick(clamp, control, series)
    return [_branch(clamp, control, recipe) for clamp, control in runs.items()]


def _branch(clamp: ClampHead, control: str, recipe: Recipe) -> Branch:
    """Return a run with a clamp, named as in "L0H1-out-120"; of a relation the name has the words alone."""
    held = [clamp.kind, *re.findall(r"\w+", clamp.relation or "")]
    name = "-".join([head_label(clamp.layer, clamp.head), *held, str(clamp.start)])
    clamped = dataclasses.replace(recipe, plan=dataclasses.replace(recipe.plan, clamps=(clamp,)))
    labels = {"layer": clamp.layer, "head": clamp.head, "kind": clamp.kind, "relation": clamp.relation}
    without = [(clamp.layer, clamp.head)] if clamp.kind in SILENT else []
    return Branch(clamped, clamp.start, name, {**labels, "control": control}, without)


def _check_kick(clamp: ClampHead, control: str, series: CheckpointSeries) -> None:
    """Refuse a kick that would move nothing, where the weights that it moves are saved."""
    if (start := clamp.start) not in series.steps:
        return
    model = models.holding(series.architecture, series.weights(start))
    try:
        Clamps(model, [clamp]).begin(start)
    except ValueError as reason:
        fix = "" if control == "head" else ", or leave the controls out (--no-controls, `controls=False`)"
        raise ValueError(f"{reason}{fix}") from reason


def controls_of(clamp: ClampHead, series: CheckpointSeries) -> Iterator[tuple[ClampHead, str]]:
    """Yield the controls of a clamp, and what they are: it on the matched head where there is one, and a kick."""
    if clamp.kind == "kick":
        return
    before = max(step for step in series.steps if step <= clamp.start)
    if (other := _matched_head(series.weights(before), (clamp.layer, clamp.head))) is not None:
        yield dataclasses.replace(clamp, layer=other[0], head=other[1]), "another head"
    yield dataclasses.replace(clamp, kind="kick", relation=None), "random direction"


def _matched_head(weights: State, head: Head) -> Head | None:
    """Return the head of the same layer whose W_V W_O, or W_O where there is no W_V, has the nearest norm; of another
    layer where it is alone, None in a model of one head.
    """
    norms: dict[Head, float] = {}
    layer = 0
    while (name := f"blocks.{layer}.attn.W_O") in weights:
        W_O = weights[name].float()
        values = [weights[own] for own in (f"blocks.{layer}.attn.{each}" for each in ("W_V", "_W_V")) if own in weights]
        written = values[0].float().repeat_interleave(len(W_O) // len(values[0]), 0) @ W_O if values else W_O
        norms |= {(layer, number): float(norm) for number, norm in enumerate(written.flatten(1).norm(dim=1))}
        layer += 1
    others = [each for each in norms if each != head and each[0] == head[0]] or [each for each in norms if each != head]
    return min(others, key=lambda each: abs(norms[each] - norms[head])) if others else None
