"""Estimates from gradients: those of finite differences, from the lean pass and from the model itself alike."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from stagewise import models
from stagewise.intervention import AblateHead, Ablation, AttributeHeads
from stagewise.loss import ScoredPredictions
from stagewise.models import _gradients as gradients
from stagewise.models import _lean as lean
from stagewise.models._edits import replacement

SMALL = 0.004
"""Share of the way to z', and away from it, that is gone: so little that few ReLUs change sides."""

LINEAR = 0.01
"""Of the largest change: what float32's rounding leaves of a central difference."""

MOST = 0.9
"""Of the changes; some others lie across the kink of a ReLU."""

MEAN = AttributeHeads("mean")


class Run:
    """A model, what a clean pass of it shows, and targets at ragged positions."""

    def __init__(self, one: Any) -> None:
        self.built, self.tokens = one.built, one.tokens
        edits = [models.hooks_for(one.built, (AblateHead(layer, 0),)) for layer in range(one.built.cfg.n_layers)]
        hooks = gradients.hooks_for_attribution(one.built).union(*edits)
        log_probs, self.clean = models.clean_pass(one.built, one.tokens, hooks)
        self.scored = (one.tokens + torch.arange(one.tokens.shape[1])) % 3 > 0
        self.predictions = ScoredPredictions.of(log_probs, one.tokens.roll(-1, 1), self.scored)
        self.weights = lean.agreeing_weights(one.built, self.clean, log_probs)
        self.replaced = partial(replacement, clean=self.clean)

    def estimates(self, request: AttributeHeads, by_hooks: bool) -> Tensor:
        inputs = self.clean[gradients.INPUT]
        model = partial(gradients.by_model, self.built, self.tokens, self.predictions, self.scored)
        if not by_hooks:
            assert self.weights is not None
            rest = (self.weights, inputs, self.predictions, self.scored)
            model = partial(gradients.by_lean_pass, self.built, *rest)
        return gradients.attributed(request, self.clean, inputs.mean(0, keepdim=True), self.replaced, model)

    def slope(self, layer: int, head: int) -> Tensor:
        """The central difference of each sequence's loss on the way from z to z'."""
        return (self._loss(layer, head, SMALL) - self._loss(layer, head, -SMALL)) / (2 * SMALL)

    def _loss(self, layer: int, head: int, share: float) -> Tensor:
        def partly(part: Ablation) -> Tensor:
            z = self.clean[f"blocks.{layer}.attn.hook_z"][:, :, head]
            return z + share * (self.replaced(part) - z)

        edit = (AblateHead(layer, head, "mean"),)
        edited = models.edited_pass(self.built, edit, self.clean, replacement=partly)
        return self.predictions.compare([edited[self.scored]])[0]


@pytest.mark.one_of(4)
def test_estimates_are_the_finite_differences_of_a_small_step(any_kind: str, subject: Callable[..., Any]) -> None:
    run = Run(subject(any_kind, 2))
    expected = torch.stack([torch.stack([run.slope(layer, h) for h in (0, 3)], 1) for layer in (0, 1)], 1)
    trained = [parameter.requires_grad for parameter in run.built.parameters()]
    for by_hooks in (True, False)[: 1 if run.weights is None else 2]:
        estimates = run.estimates(MEAN, by_hooks)[:, :, [0, 3]]
        assert (estimates - expected).abs().quantile(MOST) < LINEAR * expected.abs().max()
    assert [parameter.requires_grad for parameter in run.built.parameters()] == trained
    assert all(parameter.grad is None for parameter in run.built.parameters())
