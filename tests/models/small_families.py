"""Every family of Hugging Face's causal language models that TransformerLens bridges, made small."""

import contextlib
import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

LENGTH, HEADS, LAYERS, VOCAB, WINDOW = 12, 6, 3, 37, 5

SIZES: Mapping[str, object] = {
    **{"vocab_size": VOCAB, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, "max_position_embeddings": 40},
    **{"hidden_size": 96, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": 2},
    **{"head_dim": 24, "intermediate_size": 52, "ffn_dim": 52, "word_embed_proj_dim": 96, "rotary_dim": 8},
    **{"n_positions": 40, "n_ctx": 40, "n_embd": 96, "n_layer": LAYERS, "n_head": HEADS, "num_heads": HEADS},
    **{"d_model": 96, "n_layers": LAYERS, "n_heads": HEADS, "max_seq_len": 40, "num_layers": LAYERS},
    **{"attention_heads": HEADS, "sliding_window": WINDOW, "window_size": WINDOW, "attention_chunk_size": WINDOW},
    **{"attention_window_size": WINDOW, "local_attention": 2 * WINDOW},
    # mixtures of experts
    **{"num_local_experts": 5, "num_experts": 5, "n_routed_experts": 6, "num_experts_per_tok": 3, "n_group": 3},
    **{"moe_intermediate_size": 20, "n_shared_experts": 2, "topk_group": 2, "first_k_dense_replace": 1},
    **{"moe_num_experts": 5, "moe_k": 3, "moe_layer_end_index": 1, "shared_expert_intermediate_size": 28},
    # latent attention: keys and values of other sizes than a head's share of the model
    **{"q_lora_rank": 18, "kv_lora_rank": 22, "qk_nope_head_dim": 10, "qk_rope_head_dim": 6, "v_head_dim": 14},
    **{"index_n_heads": 4, "index_head_dim": 26, "index_topk": 7},
    # state spaces and linear attention
    **{"mamba_d_state": 7, "mamba_n_heads": 4, "mamba_d_head": 48, "mamba_expand": 2, "mamba_d_ssm": 192},
    **{"mamba_n_groups": 1, "mamba_chunk_size": 3, "chunk_size": 3, "state_size": 7, "ssm_state_size": 7},
    **{"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 9, "linear_value_head_dim": 11},
    **{"mamba_num_heads": 4, "mamba_head_dim": 48, "lru_width": 96},
}
"""Fields of a small config; each family takes those that it has.

Numbers differ where those of published models do: no head is as wide as its share of the model, queries share keys and
values by threes, windows are shorter than the sequence, and the parts of latent attention have sizes of their own.
"""

_LATENT = {"num_key_value_heads": HEADS, "head_dim": 6}
_SLIDING, _FULL = "sliding_attention", "full_attention"
_MIXED = {"layer_types": [_SLIDING, _FULL, _SLIDING]}
_MULTIPLIED = {
    **{"embedding_multiplier": 3.0, "logits_scaling": 1.7, "residual_multiplier": 0.6, "attention_multiplier": 0.3}
}
_GEMMA4 = {
    **{"vocab_size_per_layer_input": VOCAB, "hidden_size_per_layer_input": 13, "head_dim": 24, "global_head_dim": 40},
    "layer_types": [_SLIDING, _FULL, _FULL],
}
OWN: Mapping[str, Mapping[str, object]] = {
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "glm4_moe_lite": _LATENT,
    "glm_moe_dsa": _LATENT,
    "youtu": _LATENT,
    "codegen": {"n_head": 8, "n_embd": 128},  # its projection is saved in four parts
    **dict.fromkeys(["afmoe", "cohere2", "exaone4", "gemma3_text", "olmo3"], _MIXED),
    "modernbert-decoder": {"layer_types": [_FULL, _SLIDING, _FULL]},
    "laguna": {"layer_types": [_FULL, _SLIDING, _FULL], "num_attention_heads_per_layer": [HEADS] * LAYERS},
    "llama4_text": {"layer_types": ["chunked_attention", _FULL, "chunked_attention"], "no_rope_layers": [1, 0, 1]},
    "smollm3": {"no_rope_layers": [1, 0, 1]},
    "granite": _MULTIPLIED,
    "granitemoe": _MULTIPLIED,
    "falcon_h1": {
        **{
            "lm_head_multiplier": 0.7,
            "embedding_multiplier": 3.0,
            "key_multiplier": 0.4,
            "mlp_multipliers": [0.8, 1.3],
        },
        **{"attention_in_multiplier": 0.9, "attention_out_multiplier": 1.4, "ssm_in_multiplier": 1.2},
        **{"ssm_out_multiplier": 0.6, "ssm_multipliers": [0.4, 0.3, 0.8, 0.6, 1.1]},
    },
    "gpt_neo": {"attention_types": [[["global", "local", "global"], 1]]},
    "lfm2": {"layer_types": ["conv", _FULL, "conv"]},
    "lfm2_moe": {"layer_types": ["conv", _FULL, "conv"]},
    "bamba": {"attn_layer_indices": [1]},
    "jamba": {"attn_layer_offset": 1, "attn_layer_period": 2},
    "granitemoehybrid": {"layer_types": ["mamba", "attention", "mamba"], **_MULTIPLIED},
    "nemotron_h": {"layers_block_type": ["mamba", "attention", "mamba"], "n_groups": 1},
    "qwen3_5_text": {"layer_types": ["linear_attention", _FULL, "linear_attention"]},
    "qwen3_5_moe_text": {"layer_types": ["linear_attention", _FULL, "linear_attention"]},
    "qwen3_next": {"layer_types": ["linear_attention", _FULL, "linear_attention"]},
    "olmo_hybrid": {"layer_types": ["linear_attention", _FULL, "linear_attention"]},
    "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
    "mamba2": {"num_heads": 8, "head_dim": 24},
    "zamba2": {"layer_types": ["mamba", "hybrid", "mamba"], "hybrid_layer_ids": [1], "num_mem_blocks": 1},
    "gemma4_text": _GEMMA4,
}
"""What some families need beside it."""

_LLAMA3 = {
    **{"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "original_max_position_embeddings": 10,
}
_YARN = {
    **{"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 10},
    **{"beta_fast": 32.0, "beta_slow": 1.0, "mscale": 0.7, "mscale_all_dim": 1.3},
}
VARIANTS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "cohere, normed queries": ("cohere", {"use_qk_norm": True}),
    "deepseek_v2, queries of full rank": ("deepseek_v2", {"q_lora_rank": None}),
    "deepseek_v3, scaled positions": ("deepseek_v3", {"rope_parameters": _YARN}),
    "falcon, new decoder": ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon, ALiBi": ("falcon", {"alibi": True}),
    "falcon, heads of their own": ("falcon", {"multi_query": False, "parallel_attn": False}),
    "gemma4_text, shared keys": ("gemma4_text", {"layer_types": [_SLIDING, _FULL, _FULL], "num_kv_shared_layers": 1}),
    "gemma4_text, keys as values": ("gemma4_text", {"attention_k_eq_v": True, "num_global_key_value_heads": 3}),
    "gemma4_text, experts": (
        "gemma4_text",
        {"enable_moe_block": True, "num_experts": 5, "top_k_experts": 3, "moe_intermediate_size": 20},
    ),
    "glm4_moe, normed queries": ("glm4_moe", {"use_qk_norm": True}),
    "gpt_bigcode, heads of their own": ("gpt_bigcode", {"multi_query": False}),
    "laguna, other heads by layer": ("laguna", {"num_attention_heads_per_layer": [HEADS, 4, HEADS]}),
    "llama, scaled positions": ("llama", {"rope_parameters": _LLAMA3}),
    "mpt, clipped": ("mpt", {"attn_config": {"clip_qkv": 0.5, "softmax_scale": 0.3}}),
    "olmo, clipped": ("olmo", {"clip_qkv": 0.5}),
    "olmoe, clipped": ("olmoe", {"clip_qkv": 0.5}),
    "opt, norm behind": ("opt", {"do_layer_norm_before": False, "word_embed_proj_dim": 44}),
    "phi, normed queries": ("phi", {"qk_layernorm": True}),
    "phi3, partly rotary": ("phi3", {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.75}}),
    "qwen2, sliding window": ("qwen2", {"use_sliding_window": True, "max_window_layers": 1}),
    "qwen3, sliding window": ("qwen3", {"use_sliding_window": True, "max_window_layers": 1}),
    "stablelm, normed queries": ("stablelm", {"qk_layernorm": True, "use_parallel_residual": True}),
}
"""Families under other settings of theirs."""


class Family(NamedTuple):
    """A family of models: Hugging Face's name of it, its class, and the fields of a small config."""

    kind: str
    model: type[Any]
    config: type[Any]
    fields: Mapping[str, object]

    def small(self, seed: int = 0) -> Any:
        """Return a small model with random weights, so large that attention is far from uniform."""
        names = {*inspect.signature(self.config.__init__).parameters, *self.config().to_dict()}
        names |= set(getattr(self.config, "__dataclass_fields__", ()))
        shared = {name: value for name, value in SIZES.items() if name in names - set(self.config.attribute_map)}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.model(self.config(**{**shared, **self.fields})).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(6 if parameter.dim() > 1 else 1)
        return model


def family_of(name: str) -> Family:
    """Return a family or a variant by its name; nothing else is imported."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    kind, fields = VARIANTS.get(name, (name, {}))
    config = CONFIG_MAPPING[kind]
    return Family(kind, MODEL_FOR_CAUSAL_LM_MAPPING[config], config, {**OWN.get(kind, {}), **fields})


def families() -> dict[str, Family]:
    """Return every family of causal language models that TransformerLens bridges, and the variants."""
    from transformer_lens.factories.architecture_adapter_factory import SUPPORTED_ARCHITECTURES
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    found: dict[str, Family] = {}
    for kind, config in CONFIG_MAPPING.items():
        model = MODEL_FOR_CAUSAL_LM_MAPPING.get(config, None)
        bridged = (name := getattr(model, "__name__", "")) in SUPPORTED_ARCHITECTURES and name.endswith(HEADED)
        if bridged and kind == config.model_type and hasattr(config(), "vocab_size"):
            found[kind] = family_of(kind)
    found |= {name: family_of(name) for name in VARIANTS}
    return dict(sorted(found.items()))


def unbridged() -> dict[str, Any]:
    """Return a config of every other family of causal language models that transformers makes one of."""
    from huggingface_hub.errors import StrictDataclassClassValidationError
    from transformer_lens.factories.architecture_adapter_factory import SUPPORTED_ARCHITECTURES
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    found: dict[str, Any] = {}
    for kind, config in CONFIG_MAPPING.items():
        name = getattr(MODEL_FOR_CAUSAL_LM_MAPPING.get(config, None), "__name__", None)
        if name is not None and name not in SUPPORTED_ARCHITECTURES and kind == config.model_type:
            with contextlib.suppress(StrictDataclassClassValidationError):  # of a part of another model
                found |= {} if config.sub_configs else {kind: config()}
    return found


HEADED = ("ForCausalLM", "LMHeadModel")
