"""The same weights through a model made from a config and through the bridge around Hugging Face's: the same table."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import pytest
from einops import rearrange
from torch import Tensor, nn

from stagewise import models as model
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement.engine import measure
from stagewise.probes import AttentionEntropy, AttentionTo, HeadAblation, KLToReference, Loss, RestrictedContextKL
from stagewise.tasks import RepeatedTokens

LLAMA = {"positional_embedding_type": "rotary", "gated_mlp": True, "n_key_value_heads": 2, "d_mlp": 48}
CHANGES: dict[str, dict[str, Any]] = {
    "GPT2": {"act_fn": "gelu_new", "d_mlp": 128, "eps": 1e-5},
    "Llama": {**LLAMA, "act_fn": "silu", "normalization_type": "RMS", "eps": 1e-6},
    "GPTNeoX": {
        **{"positional_embedding_type": "rotary", "rotary_dim": 2, "parallel_attn_mlp": True, "act_fn": "gelu"},
        **{"d_mlp": 48, "eps": 1e-5},
    },
    "Gemma2": {
        **{**LLAMA, "act_fn": "gelu_pytorch_tanh", "normalization_type": "RMS", "final_rms": True, "eps": 1e-6},
        **{"use_normalization_before_and_after": True, "attn_scale": 16.0, "use_attn_scale": True},
        **{"attn_scores_soft_cap": 50.0, "output_logits_soft_cap": 30.0},
        **{"use_local_attn": True, "window_size": 8, "attn_types": ["local", "global"]},
    },
}
IN_4 = ("GPT2", "Llama")


def of_gpt2(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    named = {"embed.W_E": state["transformer.wte.weight"], "pos_embed.W_pos": state["transformer.wpe.weight"]}
    for layer in range(2):
        here = {name.removeprefix(f"transformer.h.{layer}."): weight for name, weight in state.items()}
        q, k, v = here["attn.c_attn.weight"].chunk(3, 1)
        biases = here["attn.c_attn.bias"].chunk(3)
        attention = {f"W_{n}": rearrange(w, "m (h d) -> h m d", h=4) for n, w in zip("QKV", (q, k, v), strict=True)}
        attention |= {f"b_{n}": b.view(4, 8) for n, b in zip("QKV", biases, strict=True)}
        attention |= {"W_O": here["attn.c_proj.weight"].view(4, 8, 32), "b_O": here["attn.c_proj.bias"]}
        mlp = {"W_in": here["mlp.c_fc.weight"], "b_in": here["mlp.c_fc.bias"]}
        mlp |= {"W_out": here["mlp.c_proj.weight"], "b_out": here["mlp.c_proj.bias"]}
        named |= {f"blocks.{layer}.attn.{name}": weight for name, weight in attention.items()}
        named |= {f"blocks.{layer}.mlp.{name}": weight for name, weight in mlp.items()}
        named |= norms(here, f"blocks.{layer}.", {"ln_1": "ln1", "ln_2": "ln2"})
    return named | norms(state, "", {"transformer.ln_f": "ln_final"}) | {"unembed.W_U": named["embed.W_E"].T}


def of_neox(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    named = {"embed.W_E": state["gpt_neox.embed_in.weight"], "unembed.W_U": state["lm_head.weight"].T}
    for layer in range(2):
        here = {name.removeprefix(f"gpt_neox.layers.{layer}."): weight for name, weight in state.items()}
        weights = rearrange(here["attention.query_key_value.weight"], "(h three d) m -> three h m d", three=3, h=4)
        biases = rearrange(here["attention.query_key_value.bias"], "(h three d) -> three h d", three=3, h=4)
        attention = {f"W_{name}": weight for name, weight in zip("QKV", weights, strict=True)}
        attention |= {f"b_{name}": bias for name, bias in zip("QKV", biases, strict=True)}
        attention |= {"W_O": rearrange(here["attention.dense.weight"], "m (h d) -> h d m", h=4)}
        named |= {f"blocks.{layer}.attn.{name}": weight for name, weight in attention.items()}
        for name, there in {"in": "h_to_4h", "out": "4h_to_h"}.items():
            named[f"blocks.{layer}.mlp.W_{name}"] = here[f"mlp.dense_{there}.weight"].T
            named[f"blocks.{layer}.mlp.b_{name}"] = here[f"mlp.dense_{there}.bias"]
        named[f"blocks.{layer}.attn.b_O"] = here["attention.dense.bias"]
        named |= norms(here, f"blocks.{layer}.", {"input_layernorm": "ln1", "post_attention_layernorm": "ln2"})
    return named | norms(state, "", {"gpt_neox.final_layer_norm": "ln_final"})


def of_llama(state: Mapping[str, Tensor], offset: float = 0.0) -> dict[str, Tensor]:
    """Gemma 2 has Llama's names, two more norms, and norms that are off by one."""
    named = {"embed.W_E": state["model.embed_tokens.weight"] * (32**0.5 if offset else 1)}
    for layer in range(2):
        here = {name.removeprefix(f"model.layers.{layer}."): weight for name, weight in state.items()}
        for name in "QKV":
            shared = "" if name == "Q" else "_"
            weight = rearrange(here[f"self_attn.{name.lower()}_proj.weight"], "(h d) m -> h m d", d=8)
            named[f"blocks.{layer}.attn.{shared}W_{name}"] = weight
        named[f"blocks.{layer}.attn.W_O"] = rearrange(here["self_attn.o_proj.weight"], "m (h d) -> h d m", d=8)
        for name, there in {"in": "up", "gate": "gate", "out": "down"}.items():
            named[f"blocks.{layer}.mlp.W_{name}"] = here[f"mlp.{there}_proj.weight"].T
        ours = {"input_layernorm": "ln1", "post_attention_layernorm": "ln1_post" if offset else "ln2"}
        ours |= {"pre_feedforward_layernorm": "ln2", "post_feedforward_layernorm": "ln2_post"} if offset else {}
        named |= norms(here, f"blocks.{layer}.", ours, offset)
    unembed = state.get("lm_head.weight", state["model.embed_tokens.weight"]).T
    return named | norms(state, "", {"model.norm": "ln_final"}, offset) | {"unembed.W_U": unembed}


def norms(here: Mapping[str, Tensor], stem: str, names: Mapping[str, str], offset: float = 0.0) -> dict[str, Tensor]:
    weights = {f"{stem}{ours}.w": here[f"{theirs}.weight"] + offset for theirs, ours in names.items()}
    biases = {f"{stem}{ours}.b": here.get(f"{theirs}.bias") for theirs, ours in names.items()}
    return weights | {name: bias for name, bias in biases.items() if bias is not None}


CONVERTED: dict[str, Callable[[Mapping[str, Tensor]], dict[str, Tensor]]] = {
    **{"GPT2": of_gpt2, "GPTNeoX": of_neox, "Llama": of_llama},
    "Gemma2": lambda state: of_llama(state, offset=1.0),
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("kind", CHANGES)
def test_the_same_weights_give_the_same_table_through_both_kinds_of_model(
    kind: str, hugging_face: Callable[..., nn.Module]
) -> None:
    if kind not in IN_4 and not model.has_hooked_transformer():
        pytest.skip("transformer-lens 4 makes no such model from a config")
    plain: Any = hugging_face(kind)
    wrapped = Architecture(plain.config)
    config = Architecture({**wrapped.config, **CHANGES[kind]})
    state = {name: weight.detach() for name, weight in plain.named_parameters()}
    converted = CONVERTED[kind](state)
    blank = model.weights(model.build(config))  # biases that the Hugging Face model does not have are zero
    assert converted.keys() <= blank.keys()
    assert all(not blank[name].any() for name in blank.keys() - converted.keys())
    batch = RepeatedTokens(32, length=8).probe_batch(4, seed=0)
    probes = [
        AttentionTo(),
        AttentionEntropy(),
        Loss(),
        KLToReference(),
        HeadAblation(kinds=("zero", "mean")),
        RestrictedContextKL((1, 15)),
    ]

    def table(made: Architecture, weights: dict[str, Tensor]) -> pd.DataFrame:
        return measure(CheckpointSeries("run", made, (0,), lambda step: weights), probes, batch, progress=False)

    one, other = table(config, {**blank, **converted}), table(wrapped, state)
    assert len(one) > 100
    drop = ["value", "lo", "hi", "resamples"]
    pd.testing.assert_frame_equal(one.drop(columns=drop), other.drop(columns=drop))
    assert (one["value"] - other["value"]).abs().max() < 1e-4
