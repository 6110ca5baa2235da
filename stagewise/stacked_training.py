"""The stacked parameters of several runs, and a step of training of them all: `torch.func.vmap` of the fused pass."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from stagewise import models
from stagewise.loss import training_loss
from stagewise.models._numbers import Dtype, products_in
from stagewise.recipe import Recipe, describe
from stagewise.training import Training, optimiser_of

_EPSILON = 1e-6
"""Added to a norm before it divides, as torch.nn.utils.clip_grad_norm_ does."""


class _Rule(NamedTuple):
    """Runs of a stack that one optimiser updates, at its rates."""

    runs: slice
    recipe: Recipe
    parameters: dict[str, nn.Parameter]
    optimiser: torch.optim.Optimizer
    rates: list[float]

    def step(self, step: int, gradients: Mapping[str, Tensor | None]) -> None:
        """Update the runs' part of the stack, which the parameters are views of."""
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group |= {name: value for name, value in self.recipe.rates(rate, step).items() if name in group}
        for name, parameter in self.parameters.items():
            gradient = gradients[name]
            parameter.grad = None if gradient is None else gradient[self.runs]
        self.optimiser.step()


class Stack:
    """The parameters of several runs [run ...] by name, and what updates them.

    Runs with the same rule (see `rule_of`) stand side by side, for one optimiser.
    """

    def __init__(self, runs: Sequence[tuple[Recipe, Training]], dtype: Dtype) -> None:
        """Stack the parameters as they are now."""
        self.runs, self.dtype, predict = runs, dtype, runs[0][1].forward.of
        assert predict is not None
        self.predict = predict
        each = [models.parameters(training.model) for _, training in runs]
        self.weights = {name: torch.stack([one[name].detach() for one in each]) for name in each[0]}
        for name, stacked in self.weights.items():
            stacked.requires_grad_(each[0][name].requires_grad)
        clips = [torch.inf if recipe.plan.clip is None else recipe.plan.clip for recipe, _ in runs]
        self.clip = torch.tensor(clips, device=next(iter(self.weights.values())).device)
        self.clips = min(clips) < torch.inf
        rules = [rule_of(recipe) for recipe, _ in runs]
        self.rules = [
            self._rule(slice(rules.index(rule), rules.index(rule) + rules.count(rule))) for rule in dict.fromkeys(rules)
        ]

    def _rule(self, runs: slice) -> _Rule:
        recipe, _ = self.runs[runs.start]
        views = {
            name: nn.Parameter(stacked.detach()[runs], stacked.requires_grad) for name, stacked in self.weights.items()
        }
        optimiser = optimiser_of(views, recipe.plan)
        return _Rule(runs, recipe, views, optimiser, [group["lr"] for group in optimiser.param_groups])

    def update(self, step: int) -> tuple[list[float], list[float]]:
        """Take one step of every run; return their losses, and the norms of their gradients before clipping."""
        for stacked in self.weights.values():
            stacked.grad = None
        losses = self._losses(step)
        # Not autograd.grad: only what is accumulated has the parameters' own layout, which fused optimisers read.
        losses.sum().backward()  # type: ignore[no-untyped-call]
        gradients = {name: stacked.grad for name, stacked in self.weights.items()}
        there = [gradient for gradient in gradients.values() if gradient is not None]
        norms = torch.cat([gradient.flatten(1) for gradient in there], 1).norm(dim=1)
        if self.clips:
            factor = (self.clip / (norms + _EPSILON)).clamp(max=1.0)
            for gradient in there:
                gradient *= factor.view(-1, *[1] * (gradient.ndim - 1))
        for rule in self.rules:
            rule.step(step, gradients)
        first, second = torch.stack([losses.detach(), norms]).tolist()  # one wait for the device
        return first, second

    def _losses(self, step: int) -> Float[Tensor, " run"]:
        """Return the loss of each run on its own batch of a step."""
        batches = [training.batch_at(step) for _, training in self.runs]
        scored = batches[0].scored
        if not all(torch.equal(batch.scored, scored) for batch in batches):
            raise ValueError(
                f"the tasks score other predictions in each run at step {step}, and runs that are trained together "
                "score the same ones: train them by themselves"
            )
        tokens = torch.stack([batch.tokens for batch in batches]).to(self.clip.device)
        targets = torch.stack([batch.targets[scored] for batch in batches]).to(self.clip.device)

        def loss(weights: Mapping[str, Tensor], tokens: Tensor, targets: Tensor) -> Tensor:
            with products_in(self.dtype, tokens.device):
                predictions = self.predict(weights, tokens, scored)
            return training_loss(predictions.float(), targets)

        losses: Tensor = torch.func.vmap(loss)(self.weights, tokens, targets)
        return losses

    @torch.no_grad()
    def put(self, number: int) -> None:
        """Copy a run's model and the state of its optimiser into the stack."""
        _, training = self.runs[number]
        for name, parameter in models.parameters(training.model).items():
            self.weights[name][number] = parameter
        rule, row = self._place(number)
        for stacked, own in _paired_parameters(rule.optimiser, training.optimiser):
            for key, value in training.optimiser.state.get(own, {}).items():
                state = rule.optimiser.state[stacked]
                if value is None:  # no momentum
                    state[key] = None
                elif key == "step":  # the same for all
                    state[key] = value.clone()
                else:
                    state.setdefault(key, value.new_zeros(stacked.shape))[row] = value

    @torch.no_grad()
    def take(self, number: int) -> None:
        """Copy a run's part of the stack into its model and its optimiser."""
        _, training = self.runs[number]
        for name, parameter in models.parameters(training.model).items():
            parameter.copy_(self.weights[name][number])
        rule, row = self._place(number)
        for stacked, own in _paired_parameters(rule.optimiser, training.optimiser):
            for key, value in rule.optimiser.state.get(stacked, {}).items():
                part = value if value is None or key == "step" else value[row]
                training.optimiser.state[own][key] = None if part is None else part.clone()
        for theirs, group in zip(rule.optimiser.param_groups, training.optimiser.param_groups, strict=True):
            group["lr"] = theirs["lr"]

    def _place(self, number: int) -> tuple[_Rule, int]:
        """Return the rule of a run, and the run's number in it."""
        rule = next(rule for rule in self.rules if rule.runs.start <= number < rule.runs.stop)
        return rule, number - rule.runs.start


def _paired_parameters(stacked: torch.optim.Optimizer, own: torch.optim.Optimizer) -> Iterator[tuple[Tensor, Tensor]]:
    """Pair the parameters of a stack with those of one of its runs."""
    for theirs, group in zip(stacked.param_groups, own.param_groups, strict=True):
        yield from zip(theirs["params"], group["params"], strict=True)


def rule_of(recipe: Recipe) -> str:
    """Return the settings that decide an optimiser's updates, as text."""
    fields = ("optimiser", "learning_rate", "warmup", "cooldown", "weight_decay", "momentum", "rates")
    schedules = {path: schedule for path, schedule in (recipe.schedules or {}).items() if path.startswith("plan.")}
    return json.dumps(describe({**{field: getattr(recipe.plan, field) for field in fields}, **schedules}))
