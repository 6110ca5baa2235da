"""Value alignment: a head whose OV circuit is the feature has cosine and projection one."""

from typing import Any

import pytest
import torch

from stagewise import architectures
from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.architectures import OneHotInit
from stagewise.checkpoints.series import State
from stagewise.init import GaussianInit
from stagewise.probe import Reading, View
from stagewise.probes import ValueAlignment
from stagewise.task import Batch
from stagewise.tasks import MarkovChain

FLOAT32 = 1e-5
"""Inner products of a few dozen float32 numbers of order one to ten, over their norms."""

TASK = MarkovChain(d_vocab=5, spans=(1, 1, 1), length=3)
FEATURES = dict(zip(("A*_1", "A*_2", "A*_3"), TASK.feature_matrices(), strict=True))
MINIMAL = architectures.minimal(5, TASK.n_ctx, n_heads=3)


def view_with(made: Architecture, state: State) -> View:
    tokens = torch.zeros(1, 2, dtype=torch.int64)
    batch = Batch(tokens, tokens, torch.ones(1, 2, dtype=torch.bool))
    return View(0, made, batch, torch.zeros(1, 2, 5), {}, {}, state)


def read(made: Architecture, state: State, features: dict[str, torch.Tensor] = FEATURES) -> tuple[Reading, Reading]:
    cosine, projection = ValueAlignment(features).read(view_with(made, state))
    return cosine, projection


def minimal_with(*maps: torch.Tensor) -> State:
    """The minimal model whose heads' value maps [token_out, token_in] are given."""
    state = model.weights(model.build(MINIMAL))
    for head, value_map in enumerate(maps):
        state["blocks.0.attn.W_V"][head, :5, :5] = value_map.T
    return state


def test_a_head_that_writes_a_feature_has_cosine_and_projection_one() -> None:
    cosine, projection = read(MINIMAL, minimal_with(*FEATURES.values()))
    # Gram-Schmidt made the features orthogonal: a head on one has nothing of the others.
    torch.testing.assert_close(cosine.values[0], torch.eye(3), atol=FLOAT32, rtol=0)
    torch.testing.assert_close(projection.values[0], torch.eye(3), atol=FLOAT32, rtol=0)


def test_scale_and_sign_show_in_the_projection_and_the_sign_in_the_cosine() -> None:
    first, second, third = FEATURES.values()
    cosine, projection = read(MINIMAL, minimal_with(2 * first, -second / 2, first + third))
    torch.testing.assert_close(
        projection.values[0], torch.tensor([[2.0, 0, 0], [0, -0.5, 0], [1, 0, 1]]), atol=FLOAT32, rtol=0
    )
    shared = [float(f.norm() / (first + third).norm()) for f in (first, third)]
    torch.testing.assert_close(
        cosine.values[0],
        torch.tensor([[1.0, 0, 0], [0, -1, 0], [shared[0], 0, shared[1]]]),
        atol=FLOAT32,
        rtol=0,
    )


def test_a_head_that_writes_nothing_has_cosine_zero() -> None:
    cosine, projection = read(MINIMAL, minimal_with(FEATURES["A*_1"]))
    assert not cosine.values[0, 1:].any()
    assert not projection.values[0, 1:].any()


def test_the_transpose_of_a_feature_is_another_map() -> None:
    cosine, _ = read(MINIMAL, minimal_with(FEATURES["A*_1"].T))
    assert abs(float(cosine.values[0, 0, 0])) < 0.9


def test_the_value_map_is_the_heads_effect_on_the_logits() -> None:
    init = OneHotInit(query_scale="xavier", value_scale="xavier")
    made = Architecture(MINIMAL.config, init)
    built = model.build(made, seed=3)
    built.blocks[0].attn.W_V.data[1:] = 0.0
    # With one token in sight attention is one: the logits are the map's column, beside the position's part.
    logits = torch.stack([built(torch.tensor([[token]]))[0, 0] for token in range(5)], 1).detach()
    position = built.blocks[0].attn.W_V[0, 5, :5].detach()
    _, projection = read(made, model.weights(built), {"effect": logits - position[:, None]})
    assert float(projection.values[0, 0, 0]) == pytest.approx(1, abs=FLOAT32)


@pytest.mark.parametrize("change", [{}, {"n_key_value_heads": 1}], ids=["own values", "shared values"])
def test_every_layer_and_head_has_its_own_map(change: dict[str, int]) -> None:
    config = {
        "n_layers": 2,
        "d_model": 8,
        "d_head": 4,
        "n_ctx": 6,
        "d_vocab": 5,
        "normalization_type": None,
        "act_fn": "relu",
    }
    made = Architecture({**config, **change}, GaussianInit(0.5))
    built: Any = model.build(made)
    state = model.weights(built)
    cosine, projection = read(made, state)
    for layer in range(2):
        for head in range(2):
            W_V, W_O = built.W_V[layer, head % built.W_V.shape[1]].detach(), built.W_O[layer, head].detach()
            value_map = (state["embed.W_E"] @ W_V @ W_O @ state["unembed.W_U"]).T
            for k, feature in enumerate(FEATURES.values()):
                inner = float((value_map * feature).sum())
                assert float(projection.values[layer, head, k]) == pytest.approx(
                    inner / float(feature.norm()) ** 2, abs=FLOAT32
                )
                expected = inner / float(value_map.norm() * feature.norm())
                assert float(cosine.values[layer, head, k]) == pytest.approx(expected, abs=FLOAT32)


def test_features_are_labelled_by_name() -> None:
    cosine, projection = read(MINIMAL, minimal_with())
    for reading in (cosine, projection):
        assert (reading.axes, list(reading.labels["feature"])) == ("layer head feature", list(FEATURES))


@pytest.mark.parametrize("norm", ["LN", "LNPre"])
def test_a_model_with_normalisation_is_refused(norm: str) -> None:
    made = Architecture({**architectures.full(5, 6).config, "normalization_type": norm})
    with pytest.raises(ValueError, match=rf"not readable through normalisation \({norm}\): leave ValueAlignment out"):
        read(made, model.weights(model.build(made)))


def test_transformer_lenss_default_norm_is_refused() -> None:
    made = Architecture({"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "act_fn": "relu"})
    with pytest.raises(ValueError, match=r"not readable through normalisation \(LN\)"):
        read(made, model.weights(model.build(made)))


def test_features_of_another_vocabulary_are_refused() -> None:
    with pytest.raises(ValueError, match=r"features are \(3, 3\), the model's value maps \(5, 5\)"):
        read(MINIMAL, minimal_with(), {"small": torch.eye(3)})


def test_no_features_are_refused() -> None:
    with pytest.raises(ValueError, match="give at least one matrix, got none"):
        ValueAlignment({})
