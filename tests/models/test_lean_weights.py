"""The weights of the lean pass, and the unembedding folded into the last layer."""

import pytest
import torch

from stagewise.models._lean_weights import Layer, LeanWeights
from stagewise.models._parts import Norm

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(3, 5, 8, generator=GENERATOR)


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

    def logits(of: LeanWeights) -> torch.Tensor:
        return of.unembedded(of.through_layers(X, lambda _, x: (of.past_last(x), of.layers[0].write(z))))

    torch.testing.assert_close(logits(folded), logits(weights))


@pytest.mark.parametrize(("norm", "n_tokens"), [(Norm("LN", 0.1), 3), (Norm(None, 0.0), 9)])
def test_what_is_no_sum_or_would_grow_is_not_folded(norm: Norm, n_tokens: int) -> None:
    weights = _weights(norm, n_tokens)
    assert weights.fold() is weights
