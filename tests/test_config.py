"""Configs of models as plain data."""

import pytest
from transformers import GPT2Config

from stagewise.config import fields_of, huggingface_fields


def test_sizes_of_a_hugging_face_config_go_by_transformer_lens_names() -> None:
    config = GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=16, vocab_size=64)
    sizes, fields = huggingface_fields(fields_of(config))
    assert sizes == {"n_layers": 2, "d_model": 32, "n_heads": 4, "d_head": 8, "n_ctx": 16, "d_vocab": 64}
    assert fields["model_type"] == "gpt2"


def test_the_config_of_a_bridge_names_what_says_more() -> None:
    config = {"n_layers": 2, "d_model": 32, "architecture": "GPT2LMHeadModel"}
    with pytest.raises(ValueError, match=r"says less than its GPT2LMHeadModel: give the bridge itself .*") as raised:
        fields_of(config)
    assert len(str(raised.value)) < 250
    assert fields_of({"n_layers": 2, "original_architecture": "GPT2LMHeadModel"})["n_layers"] == 2


def test_a_class_in_place_of_a_config_is_named() -> None:
    with pytest.raises(ValueError, match="got the class GPT2Config"):
        fields_of(GPT2Config)
