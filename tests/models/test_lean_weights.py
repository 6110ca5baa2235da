"""The lean pass's parts: norms, MLPs and rotary tables against their definitions."""

import torch
import torch.nn.functional as F

from stagewise.models.lean_weights import Mlp, Norm, capped

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
