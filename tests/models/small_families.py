"""Every family of Hugging Face's causal language models that TransformerLens bridges, made small."""

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch

LENGTH, HEADS, LAYERS, VOCAB = 12, 4, 2, 32

SIZES: Mapping[str, object] = {
    **{"vocab_size": VOCAB, "pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, "max_position_embeddings": 32},
    **{"hidden_size": 32, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": 2},
    **{"head_dim": 8, "intermediate_size": 48, "ffn_dim": 48, "word_embed_proj_dim": 32, "sliding_window": 8},
    **{"n_positions": 32, "n_ctx": 32, "n_embd": 32, "n_layer": LAYERS, "n_head": HEADS, "rotary_dim": 4},
    **{"d_model": 32, "n_layers": LAYERS, "n_heads": HEADS, "max_seq_len": 32, "num_layers": LAYERS},
    **{"num_heads": HEADS, "attention_heads": HEADS},
    # mixtures of experts
    **{"num_local_experts": 4, "num_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1},
    **{"moe_intermediate_size": 16, "n_shared_experts": 1, "topk_group": 1, "first_k_dense_replace": 1},
    "shared_expert_intermediate_size": 16,
    # latent attention: keys and values of other sizes than a head's share of the model
    **{"q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 12},
    **{"index_n_heads": 2, "index_head_dim": 16, "index_topk": 64},
    # state spaces and linear attention
    **{"mamba_d_state": 8, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_expand": 2, "mamba_d_ssm": 64},
    **{"mamba_n_groups": 1, "mamba_chunk_size": 4, "chunk_size": 4, "state_size": 8, "ssm_state_size": 8},
    **{"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8},
    **{"mamba_num_heads": 4, "mamba_head_dim": 16, "lru_width": 32, "attention_window_size": 8},
}
"""Fields of a small config; each family takes those that it has."""

_LATENT = {"num_key_value_heads": HEADS, "head_dim": 8}
OWN: Mapping[str, Mapping[str, object]] = {
    "deepseek_v2": _LATENT,
    "deepseek_v3": _LATENT,
    "glm4_moe_lite": _LATENT,
    "glm_moe_dsa": _LATENT,
    "youtu": _LATENT,
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "bamba": {"attn_layer_indices": [1]},
    "jamba": {"attn_layer_offset": 1, "attn_layer_period": 2},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "nemotron_h": {"layers_block_type": ["mamba", "attention"], "n_groups": 1},
    "qwen3_5_text": {"layer_types": ["linear_attention", "full_attention"]},
    "qwen3_5_moe_text": {"layer_types": ["linear_attention", "full_attention"]},
    "qwen3_next": {"layer_types": ["linear_attention", "full_attention"]},
    "recurrent_gemma": {"block_types": ["recurrent", "attention"]},
    "mamba2": {"num_heads": 8, "head_dim": 8},
    "zamba2": {"layer_types": ["mamba", "hybrid"], "hybrid_layer_ids": [1], "num_mem_blocks": 1},
    "gemma4_text": {"vocab_size_per_layer_input": VOCAB, "hidden_size_per_layer_input": 8, "global_head_dim": 8},
}
"""What some families need beside it."""

VARIANTS: Mapping[str, tuple[str, Mapping[str, object]]] = {
    "falcon, new decoder": ("falcon", {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon, ALiBi": ("falcon", {"alibi": True}),
    "falcon, heads of their own": ("falcon", {"multi_query": False, "parallel_attn": False}),
    "gpt_bigcode, heads of their own": ("gpt_bigcode", {"multi_query": False}),
    "opt, norm behind": ("opt", {"do_layer_norm_before": False}),
    "qwen2, sliding window": ("qwen2", {"use_sliding_window": True, "max_window_layers": 1}),
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
    seen = set()
    for kind, config in CONFIG_MAPPING.items():
        model = MODEL_FOR_CAUSAL_LM_MAPPING.get(config, None)
        if (name := getattr(model, "__name__", "")) in SUPPORTED_ARCHITECTURES and name.endswith(HEADED):
            if hasattr(config(), "vocab_size") and (config, model) not in seen and kind == config.model_type:
                found[kind] = family_of(kind)
            seen.add((config, model))
    found |= {name: family_of(name) for name in VARIANTS}
    return dict(sorted(found.items()))


HEADED = ("ForCausalLM", "LMHeadModel")
