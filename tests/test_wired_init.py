"""Wired initialisations: what they write, what trains, and what they cannot be wired in."""

import math
from typing import Any, Literal

import pytest
import torch

from stagewise import architectures
from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.architectures import OneHotInit
from stagewise.init import WithoutPositions

D, LENGTH, HEADS = 5, 6, 3
WIDTH = D + LENGTH


def minimal(**scales: Any) -> dict[str, torch.Tensor]:
    return model.weights(model.build(architectures.minimal(D, LENGTH, HEADS, OneHotInit(**scales)), seed=1))


def test_only_queries_and_values_of_the_minimal_model_train() -> None:
    built = model.build(architectures.minimal(D, LENGTH, HEADS))
    training = {name for name, weight in model.parameters(built).items() if weight.requires_grad}
    assert training == {"blocks.0.attn.W_Q", "blocks.0.attn.W_V"}


def test_at_scale_zero_heads_stay_one_whatever_rounding_does_to_their_gradients() -> None:
    made = architectures.minimal(D, LENGTH, HEADS, OneHotInit(query_scale=0.0))
    built = model.build(made)
    assert made.init.averaged == ("*.W_Q", "*.W_V")
    for name, weight in model.parameters(built).items():
        if weight.requires_grad:
            (weight * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))).sum().backward()
            model.average_over_heads(built, [name])
            assert weight.grad is not None
            weight.data -= weight.grad
            heads = model.weights(built)[name]
            assert heads[0].std() > 0.1
            assert all(torch.equal(head, heads[0]) for head in heads)


@pytest.mark.parametrize("scales", [{}, {"query_scale": 0.0, "value_scale": "xavier"}], ids=str)
def test_heads_that_start_apart_keep_their_own_gradients(scales: dict[str, Any]) -> None:
    assert WithoutPositions(OneHotInit(**scales)).averaged == OneHotInit(**scales).averaged == ()


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 0.1, "xavier"])
def test_heads_differ_from_the_start(scale: float | Literal["xavier"]) -> None:
    queries = minimal(query_scale=scale)["blocks.0.attn.W_Q"]
    for head in range(HEADS):
        for other in range(head):
            assert not torch.equal(queries[head], queries[other])


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 0.1, "xavier"])
def test_queries_are_uniform_up_to_their_scale(scale: float | Literal["xavier"]) -> None:
    bound = math.sqrt(6 / (WIDTH + WIDTH)) if scale == "xavier" else scale
    queries = minimal(query_scale=scale)["blocks.0.attn.W_Q"][:, :WIDTH]
    assert 0.9 * bound < queries.max().item() <= bound
    assert -bound <= queries.min().item() < -0.9 * bound
    assert abs(queries.mean().item()) < 0.1 * bound


def test_values_start_at_zero_or_xavier() -> None:
    assert not minimal()["blocks.0.attn.W_V"].any()
    values = minimal(value_scale="xavier")["blocks.0.attn.W_V"][:, :WIDTH, :D]
    assert 0.9 * math.sqrt(3 / WIDTH) < values.abs().max().item() <= math.sqrt(3 / WIDTH)


def test_the_padding_of_queries_and_values_starts_at_zero() -> None:
    state = minimal(query_scale="xavier", value_scale="xavier")
    assert not state["blocks.0.attn.W_Q"][:, WIDTH:].any()
    assert not state["blocks.0.attn.W_V"][:, WIDTH:].any()
    assert not state["blocks.0.attn.W_V"][:, :, D:].any()


@pytest.mark.parametrize("change", [{"d_head": WIDTH - 1}, {"d_model": WIDTH}], ids=str)
def test_a_config_that_the_wiring_does_not_fit_is_refused(change: dict[str, int]) -> None:
    config = {**architectures.minimal(D, LENGTH).config, **change}
    with pytest.raises(
        ValueError, match=r"OneHotInit needs d_head = d_vocab \+ n_ctx = 11 and, with 1 layer\(s\), d_model = 16"
    ):
        model.build(Architecture(config, OneHotInit()))


def test_two_layers_of_zero_values_are_refused_since_nothing_would_train() -> None:
    with pytest.raises(ValueError, match='two layers that write nothing have no gradient: give value_scale "xavier"'):
        model.build(architectures.minimal(D, LENGTH, HEADS, OneHotInit(), n_layers=2))
