"""Attention by a layer's own weights: the same at chosen queries, by a fused kernel, and in plain formulas."""

import math

import pytest
import torch
from torch import Tensor

from stagewise.models._lean_attention import _SHORT, attend, project
from stagewise.models._lean_weights import Layer, LeanWeights
from stagewise.models._parts import Norm
from stagewise.models._scored_positions import ScoredPositions

HEADS, D_HEAD, D_MODEL = 2, 3, 5
PLAIN = Norm(None, 0.0)


def weights(window: int | None = None, cap: float | None = None) -> LeanWeights:
    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    generator = torch.Generator().manual_seed(0)
    columns = 3 * HEADS * D_HEAD
    layer = Layer(
        PLAIN, draw(D_MODEL, columns), draw(columns), draw(HEADS, D_HEAD, D_MODEL), draw(D_MODEL), 0.5, window=window
    )
    return LeanWeights(
        [layer], HEADS, HEADS, D_HEAD, PLAIN, draw(D_MODEL, 4), draw(4), score_cap=cap
    )  # fmt: skip


def by_formula(model: LeanWeights, x: Tensor, context: int) -> Tensor:
    """Return z, one query at a time."""
    [layer] = model.layers
    q, k, v = (x @ layer.W_QKV + layer.bias_qkv).unflatten(-1, (3, HEADS, D_HEAD)).unbind(2)
    z = torch.zeros_like(q)
    for query in range(x.shape[1]):
        keys = slice(max(0, query - context + 1), query + 1)
        scores = torch.einsum("bhd,bkhd->bhk", q[:, query], k[:, keys]) * layer.scale
        if model.score_cap is not None:
            scores = model.score_cap * (scores / model.score_cap).tanh()
        z[:, query] = torch.einsum("bhk,bkhd->bhd", scores.softmax(-1), v[:, keys])
    return z


@pytest.mark.parametrize("length", [7, _SHORT + 5])
@pytest.mark.parametrize(("window", "cap"), [(None, None), (4, None), (None, 1.5)])
@pytest.mark.parametrize("context", [None, 1, 3, 100])
def test_attention_is_that_of_the_formula(
    length: int, window: int | None, cap: float | None, context: int | None
) -> None:
    model = weights(window, cap)
    x = torch.randn(3, length, D_MODEL, generator=torch.Generator().manual_seed(1))
    z = attend(model.layers[0], project(model, 0, x, None), None, context)
    shortest = min((each for each in (context, window) if each is not None), default=math.inf)
    torch.testing.assert_close(z, by_formula(model, x, int(min(shortest, length))), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [7, _SHORT + 5])
@pytest.mark.parametrize("context", [None, 2])
def test_chosen_queries_have_what_all_of_them_have_there(length: int, context: int | None) -> None:
    model = weights()
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(3, length, D_MODEL, generator=generator)
    queries = ScoredPositions.of(torch.rand(3, length, generator=generator) < 0.5)
    everywhere = attend(model.layers[0], project(model, 0, x, None), None, context)
    chosen = attend(model.layers[0], project(model, 0, x, queries), queries, context)
    torch.testing.assert_close(
        queries.flat(chosen.flatten(2)), queries.flat(queries.take(everywhere).flatten(2)), rtol=1e-5, atol=1e-5
    )


def test_what_a_layer_attends_with_serves_any_context() -> None:
    model = weights()
    x = torch.randn(2, 9, D_MODEL, generator=torch.Generator().manual_seed(3))
    heads = project(model, 0, x, None)
    for context in (3, 1, None, 3):
        anew = attend(model.layers[0], project(model, 0, x, None), None, context)
        assert torch.equal(attend(model.layers[0], heads, None, context), anew)
