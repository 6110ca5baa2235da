"""Estimates from gradients: those of finite differences, from the lean pass and from the model itself alike."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.init import GaussianInit
from stagewise.intervention import AblateHead, Ablation, AttributeEdges, AttributeHeads
from stagewise.loss import ScoredPredictions
from stagewise.models import gradients as gradients
from stagewise.models import lean as lean
from stagewise.models._edits import replacement
from stagewise.models._lean_reading import rotary_hooks
from tests.models.conftest import Make, of_all

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
        self.predictions = ScoredPredictions.of(log_probs[self.scored], one.tokens.roll(-1, 1), self.scored)
        self.weights = lean.agreeing_weights(one.built, self.clean, *of_all(log_probs))
        self.replaced = partial(replacement, clean=self.clean)

    def estimates(self, request: AttributeHeads, by_hooks: bool) -> Tensor:
        inputs = self.clean[gradients.INPUT]
        model = partial(gradients.by_model, self.built, self.tokens, self.predictions.loss, self.scored)
        if not by_hooks:
            assert self.weights is not None
            rest = (self.weights, inputs, self.predictions.loss, self.scored)
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


FLOAT32 = 1e-5
SIZES = {"n_layers": 3, "n_heads": 2, "d_model": 8, "d_head": 4, "d_mlp": 6, "act_fn": "gelu", "n_ctx": 5, "d_vocab": 7}
KINDS: dict[str, dict[str, Any]] = {
    "LN": {"normalization_type": "LN"},
    "no norm": {"normalization_type": None, "attn_only": True},
    "rotary, shared keys": {"positional_embedding_type": "rotary", "n_key_value_heads": 1},
}


class RunOfEdges:
    """A model, its clean pass, and what edges are computed from."""

    def __init__(self, kind: str, scale: float = 0.4) -> None:
        self.model = models.build(Architecture({**SIZES, **KINDS[kind]}, GaussianInit(scale)))
        self.tokens = torch.randint(0, 7, (4, 5), generator=torch.Generator().manual_seed(0))
        hooks = {*gradients.hooks_for_attribution(self.model), *(f"blocks.{n}.hook_resid_pre" for n in range(3))}
        log_probs, self.clean = models.clean_pass(self.model, self.tokens, hooks)
        self.scored = torch.ones(4, 5, dtype=torch.bool)
        self.predictions = ScoredPredictions.of(log_probs[self.scored], self.tokens.roll(-1, 1), self.scored)
        self.weights = gradients.check(lean.agreeing_weights(self.model, self.clean, *of_all(log_probs)), self.model)

    def edges(self, request: AttributeEdges, share: float = 1.0) -> Tensor:
        mean = self.clean[gradients.INPUT].mean(0, keepdim=True)

        def partly(layer: int, head: int) -> Tensor:
            z = self.clean[f"blocks.{layer}.attn.hook_z"][:, :, head]
            return z + share * (replacement(AblateHead(layer, head, "mean"), self.clean) - z)

        rest = self.clean, mean, partly, self.predictions.loss, self.scored
        return gradients.edges(request, self.model, self.weights, *rest)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("kind", KINDS)
def test_an_estimate_is_the_slope_of_the_exact_change(kind: str) -> None:
    run, share = RunOfEdges(kind), 0.01
    estimated = run.edges(AttributeEdges())
    slope = (run.edges(AttributeEdges(exact=True), share) - run.edges(AttributeEdges(exact=True), -share)) / (2 * share)
    torch.testing.assert_close(estimated, slope, atol=2e-3 * float(estimated.abs().max()), rtol=0.05)
    later = torch.tensor([[source < layer for source in range(3)] for layer in range(3)])
    assert not estimated.movedim(3, 2)[:, ~later].any()
    assert (estimated.movedim(3, 2)[:, later].abs().amax((0, 2, 3, 4)) > 0).all()


@pytest.mark.parametrize("copy", [0, 1, 2])
def test_an_exact_edge_is_the_reading_head_alone_given_another_input(copy: int) -> None:
    run = RunOfEdges("LN")
    found = run.edges(AttributeEdges(exact=True))
    source, reader = (0, 1), (1, 0)
    z = run.clean["blocks.0.attn.hook_z"][:, :, source[1]]
    change = (z.mean(0) - z) @ models.weights(run.model)["blocks.0.attn.W_O"][source[1]]

    def read(name: str) -> Tensor:
        """A head's queries, keys or values in a pass whose stream in front of the layer is changed: by the model."""
        hooks = [("blocks.1.hook_resid_pre", lambda x, hook: x + change)]
        kept: list[Tensor] = []
        hooks.append((f"blocks.1.attn.hook_{name}", lambda x, hook: kept.append(x)))
        run.model.run_with_hooks(run.tokens, fwd_hooks=hooks)
        return kept[0][:, :, reader[1]]

    name = "qkv"[copy]
    other = read(name)

    def put(x: Tensor, hook: Any) -> Tensor:
        x = x.clone()
        x[:, :, reader[1]] = other
        return x

    with torch.no_grad():
        logits = run.model.run_with_hooks(run.tokens, fwd_hooks=[(f"blocks.1.attn.hook_{name}", put)])
    expected = run.predictions.loss(logits[run.scored]) - run.predictions.loss(run.model(run.tokens)[run.scored])
    measured = found[:, reader[0], reader[1], source[0], source[1], copy]
    torch.testing.assert_close(measured, expected.detach(), atol=FLOAT32, rtol=1e-3)


def test_integrated_gradients_of_one_step_are_those_of_the_clean_pass() -> None:
    run = RunOfEdges("LN")
    one, several = run.edges(AttributeEdges(1)), run.edges(AttributeEdges(4))
    torch.testing.assert_close(one, run.edges(AttributeEdges()))
    assert not torch.allclose(one, several, rtol=1e-3)


@pytest.mark.parametrize(
    ("kind", "named"),
    {
        "Bloom": "computes with: ALiBi positions. Leave EdgeAttribution out for this model",
        "Gemma2": "computes with: norms behind attention. Leave",  # and attention in windows, which is no hindrance
        "Mixtral": "computes with: parts of its own, such as experts",
        "shortformer": "computes with: shortformer positions. Leave",
    }.items(),
)
def test_a_model_whose_heads_get_no_inputs_of_their_own_is_refused_for_what_it_has(
    kind: str, named: str, subject: Make
) -> None:
    one = subject(kind, 2)
    names = {"blocks.0.hook_resid_pre", *rotary_hooks(one.built)}
    log_probs, clean = models.clean_pass(one.built, one.tokens, names)
    with pytest.raises(ValueError, match=re.escape(named)):
        gradients.check(lean.agreeing_weights(one.built, clean, *of_all(log_probs)), one.built)
