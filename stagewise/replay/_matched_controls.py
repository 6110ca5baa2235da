"""The runs that an intervention takes: with a head held, and its controls, another head and a random direction."""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from stagewise import models
from stagewise.checkpoints._weight_files import State
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.models._clamps import Clamps, targets
from stagewise.plan import ClampHead
from stagewise.recipe import Recipe
from stagewise.replay._branches import Branch, check_start, opened
from stagewise.table import Head, check_head, head_label
from stagewise.words._delays import SILENT


def with_controls(clamps: Sequence[ClampHead], folder: Path, recipe: Recipe, controls: bool) -> list[Branch]:
    """Return the runs that some clamps take, each once: their own, and those of their controls."""
    if recipe.plan.clamps:
        raise ValueError(f"{folder} is a run with heads held: intervene in the run that it is compared with")
    series = opened(folder, recipe)
    targets(recipe.task, clamps)
    dataclasses.replace(recipe.plan, clamps=tuple(clamps))  # raises where one starts too late
    for clamp in clamps:
        check_head(clamp.layer, clamp.head, series.architecture.n_layers, series.architecture.n_heads, series.name)
        check_start(series, clamp.start, "hold the head from an earlier one on")
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
    model = models.unloaded(series.architecture)
    models.load(model, series.weights(start))
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
