"""The parts that all passes share: activations, norms, MLPs and soft caps against their definitions."""

import pytest
import torch
import torch.nn.functional as F

from stagewise.models._parts import ACTIVATIONS, Mlp, Norm, capped

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


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_has_the_same_bits_with_and_without_a_gradient(name: str) -> None:
    with_gradient = ACTIVATIONS[name](X.clone().requires_grad_())
    with torch.no_grad():
        assert torch.equal(ACTIVATIONS[name](X.clone()), with_gradient)


@pytest.mark.parametrize("kind", [None, "LN", "RMS"])
def test_parts_of_a_vector_under_a_norm_add_up_to_the_whole_less_the_shift(kind: str | None) -> None:
    weight, bias = torch.randn(2, 8, generator=GENERATOR)
    norm = Norm(kind, 0.1, weight, bias if kind == "LN" else None)
    shift = bias if kind == "LN" else 0
    torch.testing.assert_close(norm.of_part(0.3 * X, X) + norm.of_part(0.7 * X, X) + shift, norm(X))
