"""The runs that an intervention takes: with a head held, and its controls, another head and a random direction."""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stagewise import models
from stagewise.checkpoints._weight_files import State
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.models._clamps import Clamps, targets
from stagewise.plan import ClampHead
from stagewise.recipe import Recipe
from stagewise.table import Head, check_head, head_label


class ClampedRun(NamedTuple):
    """A clamp, and what it is there for: "head", or a control, "another head" or "random direction"."""

    clamp: ClampHead
    control: str = "head"

    @property
    def name(self) -> str:
        """Name of the run, as in "L0H1-out-120", or "L0H1-relation-I-2-120", of the words of a relation alone."""
        clamp = self.clamp
        held = [clamp.kind, *re.findall(r"\w+", clamp.relation or "")]
        return "-".join([head_label(clamp.layer, clamp.head), *held, str(clamp.start)])


def with_controls(
    clamps: Sequence[ClampHead], series: CheckpointSeries, recipe: Recipe, controls: bool
) -> list[ClampedRun]:
    """Return the runs that some clamps take, each once: their own, and those of their controls."""
    targets(recipe.task, clamps)
    dataclasses.replace(recipe.plan, clamps=tuple(clamps))  # raises where one starts too late
    for clamp in clamps:
        check_head(clamp.layer, clamp.head, series.architecture.n_layers, series.architecture.n_heads, series.name)
        if clamp.start >= (last := series.steps[-1]):
            raise ValueError(
                f"{series.name} has come to step {last}: hold the head from an earlier one on than {clamp.start}"
            )
    runs = {clamp: ClampedRun(clamp) for clamp in clamps}
    for one in (each for clamp in clamps for each in _controlled(clamp, series, controls)):
        runs.setdefault(one.clamp, one)  # a control that is asked for itself is one run
    for one in runs.values():
        if one.clamp.kind == "kick":
            _check_kick(one, series)
    return list(runs.values())


def _check_kick(one: ClampedRun, series: CheckpointSeries) -> None:
    """Refuse a kick that would move nothing, where the weights that it moves are saved."""
    if (start := one.clamp.start) not in series.steps:
        return
    model = models.unloaded(series.architecture)
    models.load(model, series.weights(start))
    try:
        Clamps(model, [one.clamp]).begin(start)
    except ValueError as reason:
        fix = "" if one.control == "head" else ", or leave the controls out (--no-controls, `controls=False`)"
        raise ValueError(f"{reason}{fix}") from reason


def _controlled(clamp: ClampHead, series: CheckpointSeries, controls: bool) -> Iterator[ClampedRun]:
    yield ClampedRun(clamp)
    if not controls or clamp.kind == "kick":
        return
    before = max(step for step in series.steps if step <= clamp.start)
    if (other := _matched_head(series.weights(before), (clamp.layer, clamp.head))) is not None:
        yield ClampedRun(dataclasses.replace(clamp, layer=other[0], head=other[1]), "another head")
    yield ClampedRun(dataclasses.replace(clamp, kind="kick", relation=None), "random direction")


def _matched_head(weights: State, head: Head) -> Head | None:
    """Return the head of the same layer whose W_V W_O has the nearest norm; of another layer where it is alone.

    Of grouped queries each head reads the values of its group; of a model without W_V it is W_O alone.

    Returns None for a model of one head.

    >>> import torch
    >>> W_O = torch.tensor([3.0, 1.0, 2.5]).reshape(3, 1, 1)
    >>> _matched_head({"blocks.0.attn.W_O": W_O}, (0, 0))
    (0, 2)
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
