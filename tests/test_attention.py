"""Summaries of attention against loops over layers, heads, queries and keys; circuits: the products of each head's
own weights, grouped queries each with their own copy of the shared ones."""

import pytest
import torch

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.attention import Circuits, ScoredQueries, mass_by_query, offset_profile

FLOAT32 = 1e-6
"""Sums of a few float32 numbers below one."""

BATCH, LAYERS, HEADS, LENGTH = 3, 2, 2, 5
GENERATOR = torch.Generator().manual_seed(0)
PATTERNS = torch.rand(BATCH, LAYERS, HEADS, LENGTH, LENGTH, generator=GENERATOR).tril()
PATTERNS = PATTERNS / PATTERNS.sum(-1, keepdim=True)
SCORED = torch.tensor([[0, 1, 1, 1, 1], [0, 0, 0, 0, 1], [1, 1, 1, 1, 1]]).bool()
RELATION = torch.rand(BATCH, LENGTH, LENGTH, generator=GENERATOR) > 0.5


def mean_over_queries(b: int, layer: int, head: int, keys: list[list[int]]) -> float:
    """Mean over scored queries of the sum over keys(query), one number at a time."""
    queries = [query for query in range(LENGTH) if SCORED[b, query]]
    return sum(float(PATTERNS[b, layer, head, q, k]) for q in queries for k in keys[q]) / len(queries)


def test_mass_on_a_relation_is_the_sum_over_its_keys() -> None:
    relations = torch.stack([RELATION, ~RELATION], 1)
    masses = torch.stack([mass_by_query(pattern, relations) for pattern in PATTERNS.unbind(1)], 2)
    for r, each in enumerate((RELATION, ~RELATION)):
        for b, layer, head in torch.ones(BATCH, LAYERS, HEADS).nonzero().tolist():
            expected = mean_over_queries(b, layer, head, [keys.nonzero()[:, 0].tolist() for keys in each[b]])
            found = masses[b, r, layer, head][SCORED[b]].mean().item()
            assert found == pytest.approx(expected, abs=FLOAT32)


@pytest.mark.parametrize("farthest", [0, 2, LENGTH - 1])
def test_an_offset_is_the_query_minus_the_key(farthest: int) -> None:
    profile = offset_profile(ScoredQueries.of(PATTERNS, SCORED), farthest)
    assert profile.shape == (BATCH, LAYERS, HEADS, farthest + 1)
    for b, layer, head, offset in torch.ones(profile.shape).nonzero().tolist():
        keys = [[query - offset] if query >= offset else [] for query in range(LENGTH)]
        expected = mean_over_queries(b, layer, head, keys)
        assert profile[b, layer, head, offset].item() == pytest.approx(expected, abs=FLOAT32)


def test_the_whole_profile_holds_all_the_attention() -> None:
    total = offset_profile(ScoredQueries.of(PATTERNS, SCORED), LENGTH - 1).sum(-1)
    torch.testing.assert_close(total, torch.ones(BATCH, LAYERS, HEADS), atol=FLOAT32, rtol=0)


SIZES = {"n_layers": 2, "n_heads": 4, "d_model": 8, "d_head": 2, "n_ctx": 5, "d_vocab": 7, "attn_only": True}


def circuits_with(**change: object) -> tuple[Circuits, dict[str, torch.Tensor]]:
    built = models.build(Architecture({**SIZES, **change}), seed=1)
    return models.circuits(built), models.weights(built)


def test_each_head_has_the_products_of_its_own_weights() -> None:
    circuits, weights = circuits_with()
    for layer in range(2):
        q, k, v, o = (weights[f"blocks.{layer}.attn.W_{name}"] for name in "QKVO")
        for head in range(4):
            torch.testing.assert_close(circuits.QK.A[layer, head] @ circuits.QK.B[layer, head], q[head] @ k[head].T)
            torch.testing.assert_close(circuits.OV.A[layer, head] @ circuits.OV.B[layer, head], v[head] @ o[head])


def test_heads_of_a_group_share_their_keys_and_values() -> None:
    circuits, weights = circuits_with(n_key_value_heads=2)
    k, v = (weights[f"blocks.1.attn._W_{name}"] for name in "KV")
    for head in range(4):
        assert torch.equal(circuits.QK.B[1, head], k[head // 2].T)
        assert torch.equal(circuits.OV.A[1, head], v[head // 2])


def test_embeddings_are_as_they_are_stored() -> None:
    circuits, weights = circuits_with()
    assert torch.equal(circuits.W_E, weights["embed.W_E"])
    assert torch.equal(circuits.W_U, weights["unembed.W_U"])
    assert circuits.W_pos is not None
    assert torch.equal(circuits.W_pos, weights["pos_embed.W_pos"])


@pytest.mark.parametrize("kind", ["rotary", "shortformer"])
def test_positions_that_are_not_learned_and_added_are_none(kind: str) -> None:
    rotary = {"rotary_dim": 2} if kind == "rotary" else {}
    circuits, _ = circuits_with(positional_embedding_type=kind, **rotary)
    assert circuits.W_pos is None
