"""The fields of a HookedTransformerConfig: of published models, those that each pass computes with, and others."""

from collections.abc import Collection, Mapping
from typing import Any

import torch

_EVERYWHERE = frozenset(
    [
        *("n_layers", "n_heads", "n_ctx", "d_model", "d_head", "d_mlp", "d_vocab", "d_vocab_out", "eps", "act_fn"),
        *("attn_only", "normalization_type", "positional_embedding_type", "attn_scale"),
    ]
)

NATIVE = _EVERYWHERE | {
    *("final_rms", "gated_mlp", "n_key_value_heads", "attention_dir", "attn_scores_soft_cap", "output_logits_soft_cap"),
    *("rotary_dim", "rotary_base", "rotary_adjacent_pairs"),
}
"""Fields that the model of transformer-lens 4 computes with."""

TRAINING = _EVERYWHERE | {"use_attn_scale", "scale_attn_by_inverse_layer_idx"}
"""Fields that the training pass computes with."""

NOT_MEASURED = (
    *("attention_dir", "num_experts", "clip_qkv", "rotary_base_local", "rotary_scaling_factor", "load_in_4bit"),
    *("use_qk_norm", "use_logn_attn", "use_attention_sinks"),
    *("use_NTK_by_parts_rope", "use_yarn_rope", "use_dynamic_ntk_rope"),
)
"""Fields that the measuring pass does not compute with, and its comparison with a model's predictions may miss."""

WITHOUT_EFFECT = frozenset(
    [
        *("model_name", "n_params", "device", "seed", "init_mode", "init_weights", "initializer_range"),
        *("default_prepend_bos",),
    ]
)
"""Fields that change nothing about what any model computes."""

HOOKS = frozenset(["use_attn_result", "use_split_qkv_input", "use_hook_mlp_in", "use_attn_in"])
"""Fields by which a HookedTransformer shows more of the same computation."""

OF_NATIVE_WITHOUT_EFFECT = frozenset(
    [
        *("architecture", "original_architecture", "type", "n_devices", "tokenizer_name", "tokenizer_prepends_bos"),
        *("tokenizer_appends_eos", "default_padding_side", "attn_types"),
    ]
)
"""Further fields that change nothing of a native model (attn_types without local attention among them)."""

_OFF: Mapping[str, Any] = {
    **{"use_attn_scale": True, "attention_dir": "causal", "dtype": torch.float32, "n_devices": 1},
    **dict.fromkeys(["attn_scores_soft_cap", "output_logits_soft_cap"], -1.0),
    **{"rotary_base": 10000, "rotary_scaling_factor": 1.0, "NTK_original_ctx_len": 8192},
    **{"NTK_by_parts_low_freq_factor": 1.0, "NTK_by_parts_high_freq_factor": 4.0, "NTK_by_parts_factor": 8.0},
    **{"yarn_factor": 1.0, "yarn_attention_factor": 1.0, "yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0},
    **{"yarn_original_max_position_embeddings": 4096, "yarn_truncate": True},
}
"""The value at which a field does nothing; those not listed do nothing where they are None or False."""


def asked_beside(config: Mapping[str, Any], covered: Collection[str]) -> dict[str, Any]:
    """Return the fields of a config that ask for something and are not covered."""
    beside = {name: value for name, value in config.items() if name not in covered}
    return {
        name: value
        for name, value in beside.items()
        if (value != _OFF[name] if name in _OFF else value is not None and value is not False)
    }
