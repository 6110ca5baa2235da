"""The runs that leave another one by a change: fields of its recipe, the order of its batches, classes left out."""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stagewise._prediction_classes import prediction_classes
from stagewise._value_schedules import AbstractSchedule, Shuffled, Steps
from stagewise.measurement.probe_batch import load_batch
from stagewise.plain_text import file_part
from stagewise.plan import ClampHead
from stagewise.recipe import Recipe, describe
from stagewise.replay._branches import Branch
from stagewise.words._delays import SILENT, held_in_words, left_out_in_words

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


def named_classes(recipe: Recipe, folder: Path, classes: Sequence[str]) -> tuple[str, ...]:
    """Return the classes with these names, or whose names begin so, that the run's probe batch has predictions of."""
    batch = load_batch(recipe, folder)
    members = prediction_classes(batch, range(recipe.task.d_vocab))
    known = [name for name, of in members.items() if bool((of & batch.scored).any())]
    chosen = [name for name in known if name in classes or (name.startswith(tuple({*classes} - {*known})))]
    if len(chosen) < 2:
        raise ValueError(f"two classes at least are told apart, {list(classes)} are {chosen}; there are {known}")
    return tuple(chosen)


def left_out(recipe: Recipe, names: tuple[str, ...], start: int, stop: int | None = None) -> Branch:
    """Return the branch that is trained without some classes of predictions."""
    value = names if stop is None else Steps((names, recipe.plan.leave_out), (stop,))
    one = changed_run(recipe, {"plan.leave_out": value}, start, 0, "left out")
    return one._replace(labels={**one.labels, "change": left_out_in_words(names, stop)})
