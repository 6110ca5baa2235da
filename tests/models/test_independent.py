"""What is measured of a Hugging Face model is what independent code computes, whatever transformers makes of it."""

from functools import partial
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Olmo3Config, Olmo3ForCausalLM

from stagewise import models
from stagewise.checkpoints.series import open_series
from tests import plain_huggingface

SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
    "max_position_embeddings": 64, "vocab_size": 40, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
ROPE = {
    "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16, "beta_fast": 4.0, "beta_slow": 1.0,
}  # fmt: skip
ALLOWED = 1e-5
"""Nats: rounding of float32 in another order."""


def _gpt2() -> Any:
    config = GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=40, n_positions=64, bos_token_id=0, eos_token_id=0
    )  # fmt: skip
    return GPT2LMHeadModel(config), plain_huggingface.gpt2


def _llama() -> Any:
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, **SIZES)), plain_huggingface.llama


def _olmo3() -> Any:
    config = Olmo3Config(num_hidden_layers=4, sliding_window=5, rope_theta=500_000.0, rope_scaling=ROPE, **SIZES)
    return Olmo3ForCausalLM(config), partial(plain_huggingface.olmo3, rope=ROPE)


@pytest.mark.parametrize("make", [_gpt2, _llama, _olmo3])
def test_predictions_are_those_of_code_that_shares_nothing_with_the_model(make: Any) -> None:
    torch.manual_seed(0)
    module, plain = make()
    with torch.no_grad():
        for weight in module.parameters():
            weight.mul_(3.0) if weight.ndim > 1 else weight.add_(0.1 * torch.randn_like(weight))
    tokens = torch.randint(40, (24,), generator=torch.Generator().manual_seed(1))
    expected = plain(dict(module.state_dict()), module.config, tokens)
    measured, _ = models.clean_pass(open_series([(0, module)]).model(0), tokens[None], ())
    torch.testing.assert_close(measured[0], expected, atol=ALLOWED, rtol=0)
