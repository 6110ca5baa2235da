"""The lean pass's parts: norms, MLPs and rotary tables against their definitions."""

import pytest
import torch
import torch.nn.functional as F

from stagewise.models.lean import behind, write
from stagewise.models.lean_weights import Layer, LeanWeights, Mlp, Norm, capped

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(3, 5, 8, generator=GENERATOR)


def test_norms_are_their_definitions() -> None:
    weight, bias = torch.randn(2, 8, generator=GENERATOR)
    centred = X - X.mean(-1, keepdim=True)
    expected = centred / (centred.square().mean(-1, keepdim=True) + 0.1).sqrt() * weight + bias
    torch.testing.assert_close(Norm("LN", 0.1, weight, bias)(X), expected)
    torch.testing.assert_close(
        Norm("RMS", 0.1, weight)(X), X / (X.square().mean(-1, keepdim=True) + 0.1).sqrt() * weight
    )
    assert torch.equal(Norm(None, 0.1)(X), X)


def test_a_gate_multiplies_before_the_bias() -> None:
    W_in, W_gate, W_out = torch.randn(3, 8, 8, generator=GENERATOR)
    b_in, b_out = torch.randn(2, 8, generator=GENERATOR)
    plain = F.relu(X @ W_in + b_in) @ W_out + b_out
    torch.testing.assert_close(Mlp(F.relu, W_in, b_in, W_out, b_out)(X), plain)
    gated = (F.silu(X @ W_gate) * (X @ W_in) + b_in) @ W_out + b_out
    torch.testing.assert_close(Mlp(F.silu, W_in, b_in, W_out, b_out, W_gate)(X), gated)


def test_a_cap_bounds_and_no_cap_changes_nothing() -> None:
    assert capped(100 * X, 2.0).abs().max() <= 2
    assert capped(X, None) is X


def _weights(norm: Norm, n_tokens: int) -> LeanWeights:
    columns, writing = torch.randn(8, 24, generator=GENERATOR), torch.randn(2, 4, 8, generator=GENERATOR)
    layer = Layer(Norm(None, 0.0), columns, torch.zeros(24), writing, torch.randn(8, generator=GENERATOR), 1.0)
    W_U, bias_u = torch.randn(8, n_tokens, generator=GENERATOR), torch.randn(n_tokens, generator=GENERATOR)
    return LeanWeights([layer], 2, 2, 4, norm, W_U, bias_u)


def test_a_folded_head_writes_the_logits_that_the_unembedding_makes_of_it() -> None:
    weights = _weights(Norm(None, 0.0), 3)
    folded = weights.fold()
    assert folded.folded
    z = torch.randn(3, 5, 2, 4, generator=GENERATOR)
    expected, found = (behind(each, 0, each.past_last(X), write(each.layers[0], z)) for each in (weights, folded))
    torch.testing.assert_close(folded.unembedded(found), weights.unembedded(expected))


@pytest.mark.parametrize(("norm", "n_tokens"), [(Norm("LN", 0.1), 3), (Norm(None, 0.0), 9)])
def test_what_is_no_sum_or_would_grow_is_not_folded(norm: Norm, n_tokens: int) -> None:
    weights = _weights(norm, n_tokens)
    assert weights.fold() is weights
