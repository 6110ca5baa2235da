"""Hugging Face configs: what they describe, and which models are refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.models._huggingface import check_fit


@pytest.mark.parametrize("kind", ["GPT2", "GPTNeoX", "Llama", "Gemma2", "GPTJ"])
def test_sizes_go_by_transformer_lens_names(kind: str, hugging_face: Callable[..., Any]) -> None:
    described = Architecture(hugging_face(kind).config)
    sizes = {"n_layers": 2, "d_model": 32, "n_heads": 4, "d_head": 8, "n_ctx": 32, "d_vocab": 32}
    assert dict(described.config) == sizes
    built = model.build(described)
    assert {name: getattr(built.cfg, name) for name in sizes} == sizes


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "this is BertForMaskedLM. An encoder"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "this is t5. An encoder, an encoder-decoder"),
        ({"model_type": "no-such-model"}, "transformers does not know the model type 'no-such-model'"),
    ],
    ids=["encoder", "encoder-decoder", "unknown type"],
)
def test_what_is_no_causal_language_model_is_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Architecture(config)


def test_building_leaves_the_global_generator_alone_and_a_seed_repeats(
    hugging_face: Callable[..., Any],
) -> None:
    made = Architecture(hugging_face("GPT2").config)
    state = torch.get_rng_state()
    one, same, other = (model.weights(model.build(made, seed=seed)) for seed in (3, 3, 4))
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_a_model_without_attention_is_refused() -> None:
    from transformers import MambaConfig

    with pytest.raises(ValueError, match="a mamba of this config cannot be measured: it has no attention heads"):
        Architecture(MambaConfig(hidden_size=32, num_hidden_layers=2).to_dict())


SMALL = {
    **{"hidden_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 37, "intermediate_size": 52},
    "max_position_embeddings": 40,
}


@pytest.mark.parametrize(
    "config",
    [
        {**SMALL, "model_type": "stablelm", "num_key_value_heads": 32},
        {**SMALL, "model_type": "minicpm3"},
        {**SMALL, "model_type": "llama", "hidden_act": "nothing"},
        {**SMALL, "model_type": "llama", "rope_parameters": {"rope_type": "odd"}},
        {**SMALL, "model_type": "llama", "num_attention_heads": "four"},
        {**SMALL, "model_type": "gemma2", "head_dim": 7},
        {"model_type": "gpt2", "n_layer": 100_000},
        {"model_type": "gpt2", "n_layer": 1e30},
        {"model_type": "gpt2", "n_layer": -3},
        {"model_type": "gpt2", "n_head": 5},
        {"model_type": "gpt2", "vocab_size": 10**12},
        {"model_type": "gpt2", "vocab_size": 10**5000},
        {"model_type": "gpt2", "architectures": 5},
        {**SMALL, "model_type": "mixtral", "num_local_experts": 10**7},
        {**SMALL, "model_type": "laguna", "num_attention_heads_per_layer": [4, 8, 4]},
    ],
    ids=lambda config: f"{config['model_type']}, {', '.join(key for key in config if key not in SMALL)}",
)
def test_whatever_a_foreign_config_breaks_is_said_in_a_line_that_names_its_family(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"(?i){config['model_type']}") as refused:
        model.build(Architecture(config))
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 600


def test_heads_may_be_wider_in_some_layers() -> None:
    from transformers import Gemma4TextConfig

    default = Architecture(Gemma4TextConfig().to_dict())
    assert (default.n_layers, default.n_heads, default.config["d_head"]) == (30, 8, 512)


def test_weights_that_do_not_fit_are_named_by_the_first_of_each_fault() -> None:
    with pytest.raises(ValueError, match="the weights do not fit") as refused:
        check_fit({}, (), [f"W_{number}" for number in range(5)], ["net.W"])
    _, faults = str(refused.value).split(": ", 1)
    assert faults == "W_0: missing; W_1: missing; W_2: missing; net.W: not a parameter of the model; and 2 more"
