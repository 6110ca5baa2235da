"""Initialisations: what each writes, and what it leaves frozen."""

import math

import pytest
import torch

from stagewise import architectures
from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.init import GaussianInit, WithoutPositions, matching
from stagewise.papers.linear_init import LinearInit
from stagewise.papers.position_heads import position_heads

D, LENGTH, HEADS = 5, 6, 3
WIDTH = D + LENGTH
CONFIG = {"n_layers": 2, "d_model": 64, "d_head": 16, "n_ctx": 32, "d_vocab": 40, "act_fn": "relu"}
INITS = {
    "gaussian": Architecture(CONFIG),
    "linear": Architecture({**CONFIG, "d_mlp": 8}, LinearInit()),
    "without positions": Architecture(CONFIG, WithoutPositions(LinearInit("normal"))),
    "one-hot": architectures.minimal(D, LENGTH, HEADS),
    "one-hot, two layers": architectures.minimal(D, LENGTH, HEADS, n_layers=2),
    "position heads": position_heads(D, LENGTH, HEADS),
}

SAMPLING = 0.05
"""Relative error of a standard deviation estimated from a few thousand Gaussian weights: under 2 %."""


@pytest.mark.parametrize("std", [None, 0.5])
def test_gaussian_weights_have_their_standard_deviation_biases_are_zero_norms_one(std: float | None) -> None:
    expected = 0.8 / math.sqrt(64) if std is None else std
    for name, weight in model.weights(model.build(Architecture(CONFIG, GaussianInit(std)))).items():
        if name.split(".")[-1].startswith("W"):
            assert weight.std().item() == pytest.approx(expected, rel=SAMPLING), name
        else:
            assert torch.equal(weight, torch.full_like(weight, 1.0 if name.endswith(".w") else 0.0)), name


def test_weights_named_by_a_pattern_have_their_own_deviation_and_the_others_the_same_draws() -> None:
    plain = model.weights(model.build(Architecture(CONFIG)))
    named = model.weights(model.build(Architecture(CONFIG, GaussianInit(stds={"*.W_O": 0.0, "pos_embed.*": 1.0}))))
    for name, weight in named.items():
        if name.endswith("W_O"):
            assert not weight.any()
        elif name == "pos_embed.W_pos":
            assert weight.std().item() == pytest.approx(1.0, rel=SAMPLING)
        else:
            assert torch.equal(weight, plain[name]), name


def test_a_pattern_that_names_no_weight_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no parameter is called '\*.W_X'"):
        model.build(Architecture(CONFIG, GaussianInit(stds={"*.W_X": 0.0})))


def test_grouped_query_keys_and_values_start_gaussian_too() -> None:
    state = model.weights(model.build(Architecture({**CONFIG, "n_key_value_heads": 2})))
    shared = [name for name in state if name.endswith(("_W_K", "_W_V"))]
    assert len(shared) == 4
    for name in shared:
        assert state[name].std().item() == pytest.approx(0.1, rel=SAMPLING)


def test_gated_mlps_and_rms_norms_start_gaussian_and_one() -> None:
    config = {**CONFIG, "gated_mlp": True, "normalization_type": "RMS"}
    state = model.weights(model.build(Architecture(config)))
    assert state["blocks.0.mlp.W_gate"].std().item() == pytest.approx(0.1, rel=SAMPLING)
    assert torch.equal(state["blocks.0.ln1.w"], torch.ones(64))


def test_every_weight_of_a_gaussian_model_trains() -> None:
    assert all(weight.requires_grad for weight in model.build(Architecture(CONFIG)).parameters())


@pytest.mark.parametrize("made", INITS.values(), ids=INITS.keys())
def test_initial_weights_are_the_models_own_and_drawn_alike_each_time(made: Architecture) -> None:
    built = model.build(made, seed=5)
    shapes = {name: weight.shape for name, weight in model.weights(built).items()}
    one, again = (made.init.initial(built.cfg, shapes, torch.Generator().manual_seed(5)) for _ in range(2))
    assert one.tensors.keys() == shapes.keys()
    assert one.frozen == {name for name, weight in model.parameters(built).items() if not weight.requires_grad}
    for name, weight in model.weights(built).items():
        assert torch.equal(one.tensors[name], weight), name
        assert torch.equal(one.tensors[name], again.tensors[name]), name


def test_a_pattern_selects_parameters_in_their_order() -> None:
    names = ["a.W_Q", "a.W_K", "b.W_Q"]
    assert matching(names, "*.W_Q") == ["a.W_Q", "b.W_Q"]
    assert matching(names, "*") == names


def test_a_pattern_that_selects_nothing_lists_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"no parameter is called '\*\.W_X'; there are a\.W_Q, b\.W_Q"):
        matching(["a.W_Q", "b.W_Q"], "*.W_X")
