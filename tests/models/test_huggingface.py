"""Hugging Face configs: what they describe, and which models are refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from stagewise import models as model
from stagewise.models import huggingface


@pytest.mark.parametrize("kind", ["GPT2", "GPTNeoX", "Llama", "Gemma2", "GPTJ"])
def test_sizes_go_by_transformer_lens_names(kind: str, hugging_face: Callable[..., Any]) -> None:
    described = huggingface.described(hugging_face(kind).config.to_dict())
    sizes = {"n_layers": 2, "d_model": 32, "n_heads": 4, "d_head": 8, "n_ctx": 32, "d_vocab": 32}
    assert dict(described.config) == sizes
    built = model.build(described)
    assert {name: getattr(built.cfg, name) for name in sizes} == sizes


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "this is BertForMaskedLM. An encoder"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "this is t5. An encoder, an encoder-decoder"),
        ({"n_layer": 3}, "a Hugging Face config names its `model_type`, this one has n_layer"),
        ({"model_type": "no-such-model"}, "transformers does not know the model type 'no-such-model'"),
    ],
    ids=["encoder", "encoder-decoder", "no type", "unknown type"],
)
def test_what_is_no_causal_language_model_is_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        huggingface.described(config)


def test_building_leaves_the_global_generator_alone_and_a_seed_repeats(
    hugging_face: Callable[..., Any],
) -> None:
    made = huggingface.described(hugging_face("GPT2").config.to_dict())
    state = torch.get_rng_state()
    one, same, other = (model.weights(model.build(made, seed=seed)) for seed in (3, 3, 4))
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_a_model_without_attention_is_refused() -> None:
    from transformers import MambaConfig

    with pytest.raises(ValueError, match="a model of the type mamba has no attention heads"):
        huggingface.described(MambaConfig(hidden_size=32, num_hidden_layers=2).to_dict())
