"""Which predictions made a transition: classes of them left out of replays, or estimated by gradients along one."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from stagewise import models
from stagewise.checkpoints import rewind
from stagewise.loss import squared_error, training_loss
from stagewise.measurement.probe_batch import load_batch
from stagewise.prediction_classes import prediction_classes
from stagewise.recipe import Recipe
from stagewise.replay._branches import Branch, check_start, compare, opened, own_table, rows_of
from stagewise.replay._changes import changed_run, left_out, named_classes
from stagewise.replay._delays import arrivals, transitions
from stagewise.replay.densifying import recipe_at
from stagewise.task import Batch
from stagewise.training import Dtype, Training, prepare
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
        transition: its label, as "attention to I(2)" or "loss 0.5" (see `intervene`), or its number, from 1 on, in the
            order in which those after the step come.
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
    folder = Path(folder)
    recipe = recipe or recipe_at(folder)
    noise, waiting = first_replays(folder, classes, start, stop, recipe, orders)
    transition = transition_named(transition, folder, recipe, start, progress, device)
    how: Any = {"progress": progress, "device": device, "dtype": dtype}
    lines = [{"classes": 0, **_delay(folder, recipe, one, transition, **how), "apart": False} for one in noise]
    earliest, latest = min(0.0, *(line["lo"] for line in lines)), max(0.0, *(line["hi"] for line in lines))
    while waiting:
        names, one = waiting.pop(0)
        line = _delay(folder, recipe, one, transition, **how)
        apart = line["lo"] >= latest or line["hi"] <= earliest  # intervals are half open
        lines.append({"classes": len(names), **line, "apart": apart})
        if apart and len(names) > 1:
            waiting += _halves(recipe, names, start, stop)
    return pd.DataFrame(lines)


def transition_named(
    name: str, folder: Path, recipe: Recipe, start: int, progress: bool = False, device: str = "cpu"
) -> str:
    """Return the label of a transition that comes after a step, of its label or its number among them."""
    after = sorted(arrivals(own_table(folder, recipe, progress, device), start), key=lambda each: each.comes)
    labels = [each.what for each in after]
    if name.isdecimal() and 0 < int(name) <= len(labels):
        return labels[int(name) - 1]
    if name not in labels:
        known = ", ".join(f"{number} {each.what} ({at(each.comes)})" for number, each in enumerate(after, start=1))
        raise ValueError(f"no transition {name!r} comes after step {start}; there are {known or 'none'}")
    return name


def first_replays(
    folder: Path, classes: Sequence[str], start: int, stop: int | None, recipe: Recipe, orders: int
) -> tuple[list[Branch], list[Replay]]:
    """Return the replays in other orders, and those without the halves of all classes."""
    if orders < 1:
        raise ValueError(f"the noise is that of one other order of the batches at least, got {orders}")
    check_start(opened(folder, recipe), start, "leave classes out from an earlier one")
    noise = [changed_run(recipe, {}, start, order, "batch order") for order in range(1, orders + 1)]
    return noise, _halves(recipe, named_classes(recipe, folder, classes), start, stop)


def _halves(recipe: Recipe, names: Sequence[str], start: int, stop: int | None) -> list[Replay]:
    middle = (len(names) + 1) // 2
    return [(half, left_out(recipe, half, start, stop)) for half in (tuple(names[:middle]), tuple(names[middle:]))]


def _delay(folder: Path, recipe: Recipe, one: Branch, transition: str, **how: Any) -> dict[str, Any]:
    """Return how much later a transition comes in a branch."""
    rows = rows_of(compare(folder, recipe, [one], **how), one)
    mine = rows[rows["transition"] == transition]
    return {"without": one.labels["change"], **mine[["value", "lo", "hi"]].iloc[0]}


def estimate_attribution(
    folder: str | Path,
    transition: str,
    classes: Sequence[str],
    start: int,
    stop: int | None = None,
    *,
    preconditioned: bool = False,
    recipe: Recipe | None = None,
    device: str = "cpu",
) -> pd.DataFrame:
    """Estimate how much higher the loss is when a transition comes, without classes of predictions or single sequences.

    To first order, leaving a class out of the updates s changes the loss L of the probe batch by the sum of all
    grad L(w_s) . P_s (g_s - g_s without it), where g_s is an update's gradient, and P_s the learning rate. The larger,
    the later the transition should come. `attribute` gives the truth; `python -m evidence.calibration.influence`
    compares both.

    Args:
        folder: the run folder.
        transition: as in `attribute`. Updates before it count; for attention, predictions with keys in the relation.
        classes: as in `attribute`; none for single sequences.
        start: the first update without them.
        stop: the first update with them again; None for no such.
        preconditioned: divide each rate in P_s by the root of Adam's mean square of the gradient, as the update does.
        recipe: of the run; None reads it from the folder.
        device: as the run was trained on.

    Returns a row a class as `without`, or a row a sequence by `step` and `row` of its batch, with `estimate` in nats.

    Raises:
        ValueError: no such transition or update after the step, one class, or an optimiser that keeps no mean square.

    Source: Pruthi et al. (2020), Estimating Training Data Influence by Tracing Gradient Descent, arXiv:2002.08484.
    Deviations: every update counts, grad L is of the checkpoint before it, and the mean is over what is not left out.
    """
    folder = Path(folder)
    recipe = recipe or recipe_at(folder)
    if preconditioned and recipe.plan.optimiser == "sgd":
        raise ValueError("SGD keeps no mean square of the gradient: estimate with preconditioned=False")
    names = named_classes(recipe, folder, classes) if classes else ()
    probe, end = _measured_by(folder, recipe, transition, start, stop, device)
    training, saved = prepare(recipe, device), set(opened(folder, recipe).steps)
    begin = rewind(folder, start, training.model, training.optimiser, training.way)
    direction: list[Tensor] = []
    blocks = []
    first = max(start, int(preconditioned))  # before its first update Adam has no mean square
    if first >= end:
        raise ValueError(f"no update lies between step {first} and step {end}, up to which {transition!r} is looked at")
    for step in training.steps(begin, end, []):
        if not first <= step < end:
            continue
        if step in saved or not direction:
            direction = _direction(training, probe, preconditioned)
        batch = training.batch_at(step).to(device)
        products = _products(training, batch, direction)
        members = _members(batch, names)
        rest = (products.sum() - members @ products) / (len(products) - members.sum(1)).clamp(min=1)
        labels = {"without": names} if names else {"step": step, "row": range(len(members))}
        blocks.append(pd.DataFrame({**labels, "estimate": (products.mean() - rest).cpu().numpy()}))
    rows = pd.concat(blocks, ignore_index=True)
    return rows.groupby("without", sort=False)[["estimate"]].sum().reset_index() if names else rows


def _measured_by(
    folder: Path, recipe: Recipe, transition: str, start: int, stop: int | None, device: str
) -> tuple[Batch, int]:
    """Return the predictions of the probe batch by which a transition is measured, and the step before which to end."""
    table, batch = own_table(folder, recipe, False, device), load_batch(recipe, folder).to(device)
    comes = {each.what: each.comes for each in arrivals(table, start)}
    if transition not in comes:
        raise ValueError(f"no transition {transition!r} comes after step {start}; there are {', '.join(comes)}")
    if relation := {each.what: each.relation for each in transitions(table, start)}[transition]:
        batch = dataclasses.replace(batch, scored=batch.scored & batch.relations[relation].any(-1))
    end = int(np.ceil(comes[transition]))
    return batch, end if stop is None else min(end, stop)


def _direction(training: Training, probe: Batch, preconditioned: bool) -> list[Tensor]:
    """Return P grad L, a tensor a parameter that trains."""
    loss = training_loss(_predict(training, probe), probe.targets[probe.scored])
    for parameter, gradient in _gradients(training, loss):
        parameter.grad = gradient
    models.average_over_heads(training.model, training.alike, training.clamps.parted)
    groups = training.optimiser.param_groups
    return [_rate(training, group, each, preconditioned) * each.grad for group in groups for each in group["params"]]


def _rate(training: Training, group: dict[str, Any], parameter: Tensor, preconditioned: bool) -> float | Tensor:
    if not preconditioned:
        return float(group["lr"])
    state = training.optimiser.state[parameter]
    mean_square = state["exp_avg_sq"] / (1 - group["betas"][1] ** state["step"])
    return torch.as_tensor(group["lr"] / (mean_square.sqrt() + group["eps"]))


def _gradients(training: Training, loss: Tensor, create_graph: bool = False) -> list[tuple[Tensor, Tensor]]:
    parameters = [parameter for group in training.optimiser.param_groups for parameter in group["params"]]
    how: Any = {"create_graph": create_graph, "allow_unused": True, "materialize_grads": True}
    gradients = torch.autograd.grad(loss, parameters, **how)
    return list(zip(parameters, gradients, strict=True))


def _predict(training: Training, batch: Batch) -> Float[Tensor, "prediction output"]:
    """Return the predictions of the model by plain products, which can be differentiated twice."""
    _, predict, of = training.forward
    named = models.parameters(training.model)
    return predict(batch.tokens, batch.scored) if of is None else of(named, batch.tokens, batch.scored)


def _products(training: Training, batch: Batch, direction: Sequence[Tensor]) -> Float[Tensor, " prediction"]:
    """Return a direction's product with each prediction's gradient: that of sum_i w_i loss_i, differentiated to w_i."""
    outputs, targets = _predict(training, batch), batch.targets[batch.scored]
    regression = targets.is_floating_point()
    losses = squared_error(outputs, targets) if regression else F.cross_entropy(outputs, targets, reduction="none")
    weights = torch.ones_like(losses, requires_grad=True)
    gradients = _gradients(training, (weights * losses).sum(), create_graph=True)
    along = torch.stack([(each * own).sum() for each, (_, own) in zip(direction, gradients, strict=True)]).sum()
    return torch.autograd.grad(along, weights)[0]


def _members(batch: Batch, names: Sequence[str]) -> Float[Tensor, "name prediction"]:
    """Return which scored predictions are in each class, or, without names, in each sequence."""
    if not names:
        rows = torch.arange(len(batch), device=batch.scored.device)
        return (rows[:, None] == batch.scored.nonzero()[:, 0]).float()
    classes = prediction_classes(batch, () if batch.is_regression else set(batch.targets.flatten().tolist()))
    absent = torch.zeros_like(batch.scored)
    return torch.stack([classes.get(name, absent)[batch.scored] for name in names]).float()
