"""Summaries of attention against loops over layers, heads, queries and keys."""

import pytest
import torch

from stagewise.attention import mass_on, offset_profile

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
    masses = mass_on(PATTERNS, RELATION, SCORED)
    for b, layer, head in torch.ones(BATCH, LAYERS, HEADS).nonzero().tolist():
        expected = mean_over_queries(b, layer, head, [keys.nonzero()[:, 0].tolist() for keys in RELATION[b]])
        assert masses[b, layer, head].item() == pytest.approx(expected, abs=FLOAT32)


@pytest.mark.parametrize("farthest", [0, 2, LENGTH - 1])
def test_an_offset_is_the_query_minus_the_key(farthest: int) -> None:
    profile = offset_profile(PATTERNS, SCORED, farthest)
    assert profile.shape == (BATCH, LAYERS, HEADS, farthest + 1)
    for b, layer, head, offset in torch.ones(profile.shape).nonzero().tolist():
        keys = [[query - offset] if query >= offset else [] for query in range(LENGTH)]
        expected = mean_over_queries(b, layer, head, keys)
        assert profile[b, layer, head, offset].item() == pytest.approx(expected, abs=FLOAT32)


def test_the_whole_profile_holds_all_the_attention() -> None:
    total = offset_profile(PATTERNS, SCORED, LENGTH - 1).sum(-1)
    torch.testing.assert_close(total, torch.ones(BATCH, LAYERS, HEADS), atol=FLOAT32, rtol=0)
