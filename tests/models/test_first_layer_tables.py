"""The first layer from tables: the same sums as by projecting each embedded position, and when it is worth it."""

import dataclasses
from typing import Any

import pytest
import torch

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.architectures import full, minimal
from stagewise.models._first_layer_tables import attended_by_tables, first_layer, looked_up

FLOAT32 = 1e-5
"""Sums of a few dozen numbers of order one, in another order."""


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


TOKENS = torch.randint(4, (3, 6), generator=torch.Generator().manual_seed(1))
W_E, POSITIONS = normal(4, 7, seed=2), normal(6, 7, seed=3)


def test_a_looked_up_product_is_that_of_the_embedded_sequence() -> None:
    weight, bias = normal(5, 7, seed=4), normal(5, seed=5)
    expected = (W_E[TOKENS] + POSITIONS) @ weight.T + bias
    torch.testing.assert_close(looked_up(W_E, POSITIONS, TOKENS, weight, bias), expected, atol=FLOAT32, rtol=FLOAT32)


@pytest.mark.parametrize("queries", [1, 4, 6])
def test_attention_by_tables_is_that_of_projected_positions(queries: int) -> None:
    weights = {f"W_{name}": normal(2, 7, 3, seed=ord(name)) for name in "QKV"}
    weights |= {f"b_{name}": normal(2, 3, seed=ord(name) + 1) for name in "QKV"}
    write, x = normal(2, 3, 5, seed=6).requires_grad_(), normal(3, queries, 5, seed=7)
    for weight in weights.values():
        weight.requires_grad_()
    rows = torch.cat([W_E, POSITIONS])
    q, k, v = (
        torch.einsum("bpm,hmd->bhpd", W_E[TOKENS] + POSITIONS, weights[f"W_{name}"]) + weights[f"b_{name}"][:, None]
        for name in "QKV"
    )
    later = torch.ones(6, 6, dtype=torch.bool).triu(1)
    pattern = (q @ k.transpose(-1, -2) / 1.3).masked_fill(later, -torch.inf).softmax(-1)
    expected = x + torch.einsum("bhqk,bhkd,hdo->bqo", pattern, v, write)[:, 6 - queries :]
    found = attended_by_tables(x, rows, TOKENS, weights, write, 1.3)
    torch.testing.assert_close(found, expected, atol=FLOAT32, rtol=FLOAT32)
    of_each = [write, *weights.values()]
    gradients = (torch.autograd.grad((each**2).mean(), of_each) for each in (found, expected))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=FLOAT32, rtol=10 * FLOAT32)


def chosen(architecture: Architecture, batch_size: int = 512, **change: Any) -> str:
    config = {**architecture.config, **change}
    cfg = models.build(dataclasses.replace(architecture, config=config, init=Architecture(config).init)).cfg
    return first_layer(cfg, cfg.n_ctx, batch_size)


def test_tables_are_taken_where_they_are_narrower_than_the_projections() -> None:
    wired = minimal(24, 21)
    assert chosen(wired) == "tables to the outputs"
    assert chosen(wired, n_layers=2, d_model=40) == "tables"
    assert chosen(wired, n_layers=2) == "rows"  # it writes more numbers than a head has
    assert chosen(wired, d_head=22) == "rows"
    assert chosen(wired, batch_size=11) == "residual stream"
    assert chosen(full(16, 20)) == "residual stream"  # with norms
