"""A model for weights that are loaded: afterwards it is the one that was drawn, to the bit, in all that it holds."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.models import _uninitialised as uninitialised
from tests.models.conftest import ALSO, BRIDGED, CONFIG, CONFIGS

FEW = 11
TENSORS = 4


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make tensors of small models large."""
    monkeypatch.setattr(uninitialised, "_DRAWN", FEW)


def described(kind: str, hugging_face: Callable[..., nn.Module]) -> Architecture:
    if kind in CONFIGS:
        config = {name: value for name, value in CONFIGS[kind].items() if name != "without positions"}
        return Architecture({**CONFIG, "act_fn": "relu", **config})
    return models.described(hugging_face(kind))


def held(model: models.Model) -> dict[str, Tensor]:
    """Return all that a model holds, buffers that no file has among it.

    Fused queries, keys and values are left out, which a bridge computes with in parts, and has no file of.
    """
    module: Any = getattr(model, "original_model", model)
    whole = {**dict(module.named_parameters()), **dict(module.named_buffers()), **model.state_dict()}
    return {name: weight for name, weight in whole.items() if ".qkv." not in name}


@pytest.mark.one_of(4)
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("kind", [*CONFIGS, *BRIDGED, *ALSO])
def test_a_loaded_model_is_the_one_that_was_drawn(kind: str, hugging_face: Callable[..., nn.Module]) -> None:
    made = described(kind, hugging_face)
    drawn, other = models.build(made, seed=3), models.unloaded(made)
    models.load(other, models.weights(drawn))
    expected, found = held(drawn), held(other)
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[name].nan_to_num(), weight.nan_to_num()) for name, weight in expected.items())
    tokens = torch.arange(6)[None] % made.n_outputs
    with torch.inference_mode():
        assert torch.equal(other(tokens), drawn(tokens))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("kind", ["LN and MLP", "GPT2"])
def test_before_it_is_loaded_its_numbers_are_few_and_as_large_as_those_that_are_drawn(
    kind: str, hugging_face: Callable[..., nn.Module]
) -> None:
    made = described(kind, hugging_face)
    drawn, other = (dict(model.named_parameters()) for model in (models.build(made), models.unloaded(made)))
    large = [name for name in drawn if drawn[name].std() > 0 and drawn[name].numel() > TENSORS * FEW]
    assert large
    for name in large:
        assert len(other[name].unique()) <= FEW < len(drawn[name].unique())
        assert other[name].std() < 3 * drawn[name].std()


def test_the_global_generator_is_not_touched(hugging_face: Callable[..., nn.Module]) -> None:
    both = [described(kind, hugging_face) for kind in ("LN and MLP", "GPT2")]
    before = torch.get_rng_state()
    for made in both:
        models.unloaded(made)
    assert torch.equal(torch.get_rng_state(), before)
