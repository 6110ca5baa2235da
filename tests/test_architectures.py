"""Architectures: the minimal model against the paper's equations, written out in plain torch."""

from typing import Any

import pytest
import torch
from torch import Tensor

from stagewise import architectures
from stagewise import models as model
from stagewise.architectures import OneHotInit
from stagewise.init import GaussianInit
from stagewise.models import _native as native
from stagewise.models._training_pass import training_pass

D, LENGTH, HEADS = 5, 6, 3
WIDTH = D + LENGTH

FLOAT32 = 1e-5
"""Logits of order one, from sums of a few dozen float32 products."""


def logits_of(built: model.Model, tokens: torch.Tensor, fused: bool) -> torch.Tensor:
    """The hooked model's logits, or those of the pass that trains it on many sequences."""
    if not fused:
        return built(tokens)
    everything = torch.ones(tokens.shape, dtype=torch.bool)
    forward = training_pass(built, tokens, everything, batch_size=512)
    assert forward.name.startswith("fused")
    return forward.predict(tokens, everything).view(*tokens.shape, -1)


FORWARDS = pytest.mark.parametrize("fused", [False, True], ids=["hooked model", "training forward"])


def one_hot(tokens: Tensor) -> Tensor:
    position = torch.eye(LENGTH)[: tokens.shape[1]].expand(len(tokens), -1, -1)
    return torch.cat([torch.eye(D)[tokens], position], -1)


def layer(queries: Tensor, values: Tensor, x: Tensor) -> Tensor:
    """Scores (W_Q x_i) . x_j / sqrt(D); causal softmax; sum_h sum_j a_ij W_V x_j."""
    written = torch.zeros(*x.shape[:2], values.shape[1])
    for W_Q, W_V in zip(queries, values, strict=True):
        scores = (x @ W_Q.T) @ x.transpose(1, 2) / WIDTH**0.5
        future = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
        attention = scores.masked_fill(future, -torch.inf).softmax(-1)
        written = written + attention @ (x @ W_V.T)
    return written


def equations(queries: Tensor, values: Tensor, tokens: Tensor) -> Tensor:
    """The first d coordinates of what one layer writes."""
    return layer(queries, values, one_hot(tokens))[..., :D]


def minimal_model(seed: int = 0) -> tuple[Any, Tensor]:
    init = OneHotInit(query_scale="xavier", value_scale="xavier")
    built = model.build(architectures.minimal(D, LENGTH, HEADS, init), seed=seed)
    with torch.no_grad():
        for parameter in (built.blocks[0].attn.W_Q, built.blocks[0].attn.W_V):
            parameter.mul_(4)  # attention that is far from uniform
    return built, torch.randint(D, (7, LENGTH), generator=torch.Generator().manual_seed(seed))


def square_matrices(weights: Tensor) -> Tensor:
    """The paper's D x D matrices, which multiply columns, from TransformerLens's [head model d_head]."""
    return weights[:, :WIDTH].transpose(1, 2).detach().clone().requires_grad_(True)


def gradient(built: Any, name: str) -> Tensor:
    """The gradient of a weight of the first layer, [head model d_head] whatever the version's layout."""
    own = model.parameters(built)[f"blocks.0.attn.{name}"].grad
    assert own is not None
    return own if model.has_hooked_transformer() else native.hooked(name, own, built.cfg)


@FORWARDS
@pytest.mark.parametrize("seed", [0, 1])
def test_minimal_has_the_logits_of_the_papers_equations(seed: int, fused: bool) -> None:
    built, tokens = minimal_model(seed)
    queries, values = square_matrices(built.blocks[0].attn.W_Q), square_matrices(built.blocks[0].attn.W_V)
    expected = equations(queries, values, tokens)
    logits = logits_of(built, tokens, fused)
    assert expected.std() > 0.1
    torch.testing.assert_close(logits, expected, atol=FLOAT32, rtol=0)


@FORWARDS
def test_two_minimal_layers_have_the_logits_of_the_equations_applied_twice(fused: bool) -> None:
    built = model.build(architectures.minimal(D, LENGTH, HEADS, n_layers=2), seed=0)
    tokens = torch.randint(D, (7, LENGTH), generator=torch.Generator().manual_seed(0))
    x = one_hot(tokens)
    for start, block in zip((0, WIDTH), built.blocks, strict=True):
        own = slice(start, start + WIDTH)
        with torch.no_grad():
            block.attn.W_Q.mul_(4)
        x = layer(block.attn.W_Q[:, own].transpose(1, 2), block.attn.W_V[:, own].transpose(1, 2), x)
        for weight in (block.attn.W_Q, block.attn.W_V):
            assert weight.requires_grad
            assert not weight[:, :start].any()
            assert not weight[:, start + WIDTH :].any()
    logits = logits_of(built, tokens, fused)
    assert logits.std() > 0.1
    torch.testing.assert_close(logits, x[..., :D], atol=FLOAT32, rtol=0)


@FORWARDS
def test_minimal_has_the_gradients_of_the_papers_equations(fused: bool) -> None:
    built, tokens = minimal_model()
    queries, values = (square_matrices(model.weights(built)[f"blocks.0.attn.W_{name}"]) for name in "QV")
    targets = tokens.roll(1, 0)
    for logits in (
        logits_of(built, tokens, fused),
        equations(queries, values, tokens),
    ):
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
    for name, plain in (("W_Q", queries), ("W_V", values)):
        assert plain.grad is not None
        assert plain.grad.abs().max() > 1e-3
        torch.testing.assert_close(gradient(built, name)[:, :WIDTH].transpose(1, 2), plain.grad, atol=FLOAT32, rtol=0)


@FORWARDS
def test_the_padding_of_the_minimal_model_gets_exactly_zero_gradient(fused: bool) -> None:
    built, tokens = minimal_model()
    logits = logits_of(built, tokens, fused)
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
    queries, values = gradient(built, "W_Q"), gradient(built, "W_V")
    assert queries.any()
    assert values.any()
    assert not queries[:, WIDTH:].any()
    assert not values[:, WIDTH:].any()
    assert not values[:, :, D:].any()


def test_minimal_with_zero_values_is_uniform() -> None:
    built = model.build(architectures.minimal(D, LENGTH))
    assert not built(torch.zeros(2, LENGTH, dtype=torch.int64)).any()


def test_minimal_and_full_run_on_sequences_shorter_than_the_context() -> None:
    for made in (architectures.minimal(D, LENGTH), architectures.full(D, LENGTH)):
        assert model.build(made)(torch.zeros(2, 3, dtype=torch.int64)).shape == (2, 3, D)


def test_full_is_what_its_arguments_say() -> None:
    made = architectures.full(D, LENGTH, n_layers=2, n_heads=4, d_model=32, d_mlp=20)
    built = model.build(made)
    assert (made.n_layers, made.n_heads) == (built.cfg.n_layers, built.cfg.n_heads) == (2, 4)
    assert model.weights(built)["blocks.1.mlp.W_in"].shape == (32, 20)
    assert (built.cfg.d_head, built.cfg.act_fn, built.cfg.normalization_type) == (8, "relu", "LN")
    assert made.init == GaussianInit()
