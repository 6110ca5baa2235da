"""The weights of the lean pass, and the unembedding folded into the last layer."""

import pytest
import torch
import torch.nn.functional as F

from stagewise.models._lean_weights import ACTIVATIONS, Layer, LeanWeights, Mlp, Norm, Projection, capped

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(3, 5, 8, generator=GENERATOR)


def _weights(norm: Norm, n_tokens: int) -> LeanWeights:
    part = Projection.of(torch.randn(2, 8, 4, generator=GENERATOR), torch.zeros(2, 4))
    writing, bias = torch.randn(2, 4, 8, generator=GENERATOR), torch.randn(8, generator=GENERATOR)
    layer = Layer(Norm(None, 0.0), part, part, part, writing, bias, 1.0)
    W_U, bias_u = torch.randn(8, n_tokens, generator=GENERATOR), torch.randn(n_tokens, generator=GENERATOR)
    return LeanWeights([layer], norm, W_U, bias_u)


def test_a_folded_head_writes_the_logits_that_the_unembedding_makes_of_it() -> None:
    weights = _weights(Norm(None, 0.0), 3)
    folded = weights.fold()
    assert folded.folded
    z = torch.randn(3, 5, 2, 4, generator=GENERATOR)

    def logits(of: LeanWeights) -> torch.Tensor:
        here = of.past_last(X)
        return of.unembedded(of.through_layers(X, lambda *_: (here, here + of.layers[0].write(z))))

    torch.testing.assert_close(logits(folded), logits(weights))


@pytest.mark.parametrize(("norm", "n_tokens"), [(Norm("LN", 0.1), 3), (Norm(None, 0.0), 9)])
def test_what_is_no_sum_or_would_grow_is_not_folded(norm: Norm, n_tokens: int) -> None:
    weights = _weights(norm, n_tokens)
    assert weights.fold() is weights


PARTS_GENERATOR = torch.Generator().manual_seed(0)
PARTS_X = torch.randn(3, 5, 8, generator=PARTS_GENERATOR)


def test_norms_are_their_definitions() -> None:
    weight, bias = torch.randn(2, 8, generator=PARTS_GENERATOR)
    centred = PARTS_X - PARTS_X.mean(-1, keepdim=True)
    expected = centred / (centred.square().mean(-1, keepdim=True) + 0.1).sqrt() * weight + bias
    torch.testing.assert_close(Norm("LN", 0.1, weight, bias)(PARTS_X), expected)
    torch.testing.assert_close(
        Norm("RMS", 0.1, weight)(PARTS_X), PARTS_X / (PARTS_X.square().mean(-1, keepdim=True) + 0.1).sqrt() * weight
    )
    assert torch.equal(Norm(None, 0.1)(PARTS_X), PARTS_X)


def test_a_gate_multiplies_before_the_bias() -> None:
    W_in, W_gate, W_out = torch.randn(3, 8, 8, generator=PARTS_GENERATOR)
    b_in, b_out = torch.randn(2, 8, generator=PARTS_GENERATOR)
    plain = F.relu(PARTS_X @ W_in + b_in) @ W_out + b_out
    torch.testing.assert_close(Mlp(F.relu, W_in, b_in, W_out, b_out)(PARTS_X), plain)
    gated = (F.silu(PARTS_X @ W_gate) * (PARTS_X @ W_in) + b_in) @ W_out + b_out
    torch.testing.assert_close(Mlp(F.silu, W_in, b_in, W_out, b_out, W_gate)(PARTS_X), gated)


def test_a_cap_bounds_and_no_cap_changes_nothing() -> None:
    assert capped(100 * PARTS_X, 2.0).abs().max() <= 2
    assert capped(PARTS_X, None) is PARTS_X


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_has_the_same_bits_with_and_without_a_gradient(name: str) -> None:
    with_gradient = ACTIVATIONS[name](PARTS_X.clone().requires_grad_())
    with torch.no_grad():
        assert torch.equal(ACTIVATIONS[name](PARTS_X.clone()), with_gradient)


@pytest.mark.parametrize("kind", [None, "LN", "RMS"])
def test_parts_of_a_vector_under_a_norm_add_up_to_the_whole_less_the_shift(kind: str | None) -> None:
    weight, bias = torch.randn(2, 8, generator=PARTS_GENERATOR)
    norm = Norm(kind, 0.1, weight, bias if kind == "LN" else None)
    shift = bias if kind == "LN" else 0
    torch.testing.assert_close(
        norm.of_part(0.3 * PARTS_X, PARTS_X) + norm.of_part(0.7 * PARTS_X, PARTS_X) + shift, norm(PARTS_X)
    )
