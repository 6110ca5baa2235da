"""Exact reverse mode through training: what each sample of some updates does to a number of the model at their end."""

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from stagewise import models
from stagewise.loss import squared_error
from stagewise.task import Batch
from stagewise.training import Training

Row = list[Tensor]
"""A parameter and the optimiser's moments of it, in float64."""

_EPSILON = 1e-6
"""Added to a norm before it divides, as torch.nn.utils.clip_grad_norm_ does."""


def sample_losses(training: Training, weights: Mapping[str, Tensor], batch: Batch) -> Float[Tensor, " batch"]:
    """Return each sequence's part of the loss of training, nats: their sum is the loss."""
    assert training.forward.of is not None
    predictions, targets = training.forward.of(weights, batch.tokens, batch.scored), batch.targets[batch.scored]
    if batch.is_regression:
        losses = squared_error(predictions, targets.to(predictions))
    else:
        losses = F.cross_entropy(predictions, targets, reduction="none")
    return losses.new_zeros(len(batch)).index_add(0, batch.scored.nonzero()[:, 0], losses) / len(losses)


def check_reversible(training: Training) -> None:
    """Refuse a training with parts that no gradient goes back through here."""
    module: Any = training.model  # which draws where it is told that it trains
    way, dropout = str(training.way["pass"]), module.training
    if training.clamps.clamps or training.alike or dropout or training.forward.of is None or "bfloat16" in way:
        raise ValueError(
            f"no gradient goes back through this training ({way}): it holds heads, keeps them alike, draws at random, "
            "is not in float32, or has a config without fused pass. Leave classes of predictions out instead"
        )


def sample_effects(
    training: Training, now: int, start: int, stop: int, score: Callable[[], Float[Tensor, ""]]
) -> Iterator[tuple[int, Float[Tensor, " batch"]]]:
    """Yield each update, the last one first, and the derivative of a score by the weight of each of its samples.

        d score / d w_i = -(adjoint of the update's gradient) . d loss_i / d weights,   loss = sum_i w_i loss_i

    The adjoint goes back through every update between, its gradient, clipping and the optimiser's moments included.
    The steps are those of the run; derivatives are taken in float64 on them. The training runs twice, and the
    states of about sqrt(stop - start) steps are in memory at a time.

    Args:
        training: which is at step `now`.
        now: up to `start`.
        start: the first update whose samples are told.
        stop: the step of the score.
        score: of `training.model` as it is then; gradients flow to its parameters.
    """
    length = math.isqrt(stop - start - 1) + 1
    kept = {}
    for step in training.steps(now, stop, []):
        if start <= step < stop and (step - start) % length == 0:
            kept[step] = models.weights(training.model), copy.deepcopy(training.optimiser.state_dict())
    named, total = trained_parameters(training), score()
    found = torch.autograd.grad(total, list(named.values()), materialize_grads=True)
    adjoint = [
        each
        for row, gradient in zip(_rows(training), found, strict=True)
        for each in (gradient.double(), *map(torch.zeros_like, row[1:]))
    ]
    for first, (weights, state) in reversed(kept.items()):
        models.load(training.model, weights)
        training.optimiser.load_state_dict(state)
        passed = [_rows(training) for _ in training.steps(first, min(first + length, stop), [])]
        for step in reversed(range(first, min(first + length, stop))):
            adjoint, effects = _back(training, step, passed[step - first], adjoint)
            yield step, effects


def trained_parameters(training: Training) -> dict[str, Tensor]:
    """Return the parameters that train, by name, in the optimiser's order."""
    names = {id(parameter): name for name, parameter in models.parameters(training.model).items()}
    every = [parameter for group in training.optimiser.param_groups for parameter in group["params"]]
    return {names[id(parameter)]: parameter for parameter in every}


def _rows(training: Training) -> list[Row]:
    keys = ("momentum_buffer",) if isinstance(training.optimiser, torch.optim.SGD) else ("exp_avg", "exp_avg_sq")
    rows = []
    for parameter in trained_parameters(training).values():
        state = training.optimiser.state.get(parameter, {})
        moments = [torch.zeros_like(parameter) if (kept := state.get(key)) is None else kept for key in keys]
        rows.append([each.detach().to(torch.float64, copy=True) for each in (parameter, *moments)])
    return rows


def _back(
    training: Training, step: int, rows: Sequence[Row], adjoint: Sequence[Tensor]
) -> tuple[list[Tensor], Float[Tensor, " batch"]]:
    """Return the adjoint in front of an update, and its derivative by each sample's weight."""
    training.adjust(step)  # sets the rates
    batch, weights = training.batch_at(step).to(rows[0][0].device), [row[0] for row in rows]
    before = [each.requires_grad_() for row in rows for each in row]
    fixed = {name: each.detach().double() for name, each in models.parameters(training.model).items()}
    tokens = batch.tokens.double() if batch.tokens.is_floating_point() else batch.tokens
    counts = weights[0].new_ones(len(batch), requires_grad=True)
    named = fixed | dict(zip(trained_parameters(training), weights, strict=True))
    loss = counts @ sample_losses(training, named, dataclasses.replace(batch, tokens=tokens))
    gradients = torch.autograd.grad(loss, weights, create_graph=True, materialize_grads=True)
    if training.clip is not None:
        norm = torch.stack([each.square().sum() for each in gradients]).sum().sqrt()
        factor = (training.clip / (norm + _EPSILON)).clamp(max=1.0)
        gradients = tuple(factor * each for each in gradients)
    groups = [group for group in training.optimiser.param_groups for _ in group["params"]]
    after = [
        each
        for group, row, gradient in zip(groups, rows, gradients, strict=True)
        for each in _updated(group, step + 1, row, gradient)
    ]
    *earlier, effects = torch.autograd.grad(after, [*before, counts], adjoint, materialize_grads=True)
    return earlier, effects


def _updated(group: Mapping[str, Any], count: int, row: Row, gradient: Tensor) -> Row:
    """Return a parameter and its moments after an update, as torch's SGD and AdamW take it."""
    rate, decay, (weight, first, *others) = group["lr"], group["weight_decay"], row
    if not others:
        first = group["momentum"] * first + gradient + decay * weight
        return [weight - rate * first, first]
    (beta, beta_2), second = group["betas"], others[0]
    first = beta * first + (1 - beta) * gradient
    second = beta_2 * second + (1 - beta_2) * gradient.square()
    # The root has no derivative at 0, where no sample has a gradient.
    root = torch.where(second > 0, second, 1.0).sqrt() * (second > 0) / math.sqrt(1 - beta_2**count)
    step = rate / (1 - beta**count) * first / (root + group["eps"])
    return [weight * (1 - rate * decay) - step, first, second]
