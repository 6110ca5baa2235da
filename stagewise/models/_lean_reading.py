"""The weights of the lean pass, read off a HookedTransformer or a bridge of either kind."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from stagewise.models import _native as native
from stagewise.models._bridge_loading import is_bridge
from stagewise.models._config_fields import NOT_MEASURED, asked_beside
from stagewise.models._held_attention import HeldKeys, held_keys
from stagewise.models._lean_weights import ACTIVATIONS, Layer, LeanWeights, Mlp, Norm, Projection
from stagewise.models._model import Model, State
from stagewise.models._weights import in_hooked_layout, parameters


def not_covered(model: Model) -> list[str]:
    """Name the features of the config that the lean pass lacks, and a comparison of few predictions might miss."""
    cfg: Any = model.cfg
    alibi = ["ALiBi positions"] if cfg.positional_embedding_type == "alibi" else []
    if not is_bridge(model) or native.is_native(model):
        asked = asked_beside({field: getattr(cfg, field) for field in NOT_MEASURED if hasattr(cfg, field)}, ())
        return alibi + [f"{field} = {value}" for field, value in asked.items()]
    config: Any = model.original_model.config
    clipped = [getattr(each, "clip_qkv", None) for each in (config, getattr(config, "attn_config", None))]
    attentions = [block.attn.original_component for block in model.blocks]
    normed = [getattr(each, name, None) for each in attentions for name in ("q_norm", "k_norm")]
    parts = {"clipped queries, keys and values": clipped, "norms of queries and keys": normed}
    return alibi + [name for name, of in parts.items() if any(part is not None for part in of)]


def lean_weights(model: Model, clean: Mapping[str, Tensor], *, mlps: bool = True) -> LeanWeights | None:
    """Read a model's weights for the lean pass, None where a part is unknown: see also `lean.agreeing_weights`."""
    try:
        with torch.no_grad():  # not in inference mode: gradients flow through the products with these weights
            if is_bridge(model) and not native.is_native(model):
                return _of_bridge(model, clean, mlps)
            return _of_model(model, mlps)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError):
        return None  # of another structure: a mixture of experts, latent attention, a kernel of its own


def rotary_hooks(model: Model) -> set[str]:
    """Name the hooks of a bridge's rotary positions."""
    return {name for name in model.hook_dict if name.endswith((".attn.hook_cos", ".attn.hook_sin"))}


def shown_hooks(model: Model) -> tuple[str, str, str] | None:
    """Name the hooks of the first layer's q, k and v, which no restricted context changes; a bridge's differ: None."""
    if is_bridge(model):
        return None
    turned = "rot_" if model.cfg.positional_embedding_type == "rotary" else ""
    return (f"blocks.0.attn.hook_{turned}q", f"blocks.0.attn.hook_{turned}k", "blocks.0.attn.hook_v")


def _of_model(model: Model, mlps: bool) -> LeanWeights:
    """Read a HookedTransformer, or the native bridge that has its parameters."""
    weights = {name: in_hooked_layout(model, name, each).detach() for name, each in parameters(model).items()}
    scales = [native.attn_scale(model, layer) for layer in range(model.cfg.n_layers)]
    read = of_config(model.cfg, weights, scales, held_keys(model), mlps=mlps)
    return dataclasses.replace(read, shown=shown_hooks(model))


def of_config(cfg: Any, weights: State, scales: Sequence[float], held: HeldKeys, *, mlps: bool = True) -> LeanWeights:
    """Name the parts of weights by a config, given the divisor of each layer's scores; gradients flow back."""
    layers = [_layer_of_config(cfg, weights, number, scale, held, mlps) for number, scale in enumerate(scales)]
    shortformer = cfg.positional_embedding_type == "shortformer"
    final = "RMS" if getattr(cfg, "final_rms", False) and cfg.normalization_type else cfg.normalization_type
    return LeanWeights(
        layers,
        Norm.of(weights, "ln_final", final, cfg.eps),
        weights["unembed.W_U"],
        weights["unembed.b_U"],
        bool(getattr(cfg, "parallel_attn_mlp", False)),
        _cap(cfg.attn_scores_soft_cap),
        _cap(cfg.output_logits_soft_cap),
        bool(cfg.rotary_adjacent_pairs),
        weights["pos_embed.W_pos"] if shortformer else None,
    )


def _layer_of_config(cfg: Any, weights: State, number: int, scale: float, held: HeldKeys, mlps: bool) -> Layer:
    block, shared = f"blocks.{number}.", "" if cfg.n_key_value_heads is None else "_"
    names = (f"{block}attn.{part}" for part in ("{}_Q", f"{shared}{{}}_K", f"{shared}{{}}_V"))
    q, k, v = (Projection.of(weights[name.format("W")], weights[name.format("b")]) for name in names)
    kind, mlp = cfg.normalization_type, Mlp.of(weights, cfg.act_fn, block) if mlps and not cfg.attn_only else None
    after = kind if getattr(cfg, "use_normalization_before_and_after", False) else None
    is_rotary, is_local = cfg.positional_embedding_type == "rotary", getattr(cfg, "use_local_attn", False)
    return Layer(
        Norm.of(weights, f"{block}ln1", kind, cfg.eps),
        q,
        k,
        v,
        weights[f"{block}attn.W_O"],
        weights[f"{block}attn.b_O"],
        1 / scale,
        None if mlp is None else Norm.of(weights, f"{block}ln2", kind, cfg.eps),
        mlp,
        None if after is None else Norm.of(weights, f"{block}ln1_post", after, cfg.eps),
        None if after is None or mlp is None else Norm.of(weights, f"{block}ln2_post", after, cfg.eps),
        rotary=_rotary_of_config(cfg, weights["unembed.b_U"].device, cfg.rotary_adjacent_pairs) if is_rotary else None,
        window=cfg.window_size if is_local and cfg.attn_types[number] == "local" else None,
        held=held.get(number),
    )


def _rotary_of_config(cfg: Any, device: torch.device, adjacent: bool) -> tuple[Tensor, Tensor]:
    turned = cfg.rotary_dim or cfg.d_head
    # In float64: an angle is a large product of which only the rest after whole turns counts.
    frequencies = cfg.rotary_base ** -(torch.arange(0, turned, 2, dtype=torch.float64) / turned)
    angles = torch.arange(cfg.n_ctx, dtype=torch.float64)[:, None] * frequencies
    angles = angles.repeat_interleave(2, 1) if adjacent else angles.repeat(1, 2)
    return angles.cos().float().to(device), angles.sin().float().to(device)


def _of_bridge(bridge: Any, clean: Mapping[str, Tensor], mlps: bool) -> LeanWeights:
    """Read a bridge around a Hugging Face model, by the names that TransformerLens gives its parts."""
    cfg, hf = bridge.cfg, bridge.original_model.config
    head = bridge.unembed.original_component
    return LeanWeights(
        [_layer_of_bridge(bridge, layer, clean, mlps) for layer in range(cfg.n_layers)],
        _norm_of_bridge(bridge.ln_final, cfg),
        head.weight.T.detach(),
        _or_zero(getattr(head, "bias", None), head.weight[:, 0]),
        bool(cfg.parallel_attn_mlp),
        _cap(getattr(hf, "attn_logit_softcapping", None)),
        _cap(getattr(hf, "final_logit_softcapping", None)),
        cfg.positional_embedding_type == "rotary" and not rotary_hooks(bridge),
    )


def _layer_of_bridge(bridge: Any, layer: int, clean: Mapping[str, Tensor], mlps: bool) -> Layer:
    cfg, hf, block = bridge.cfg, bridge.original_model.config, bridge.blocks[layer]
    attn = block.attn
    weights = {name: getattr(attn, f"W_{name}") for name in "QKV"}
    biases = {name: _or_zero(getattr(attn, f"b_{name}"), weight[:, 0]) for name, weight in weights.items()}
    q, k, v = (Projection.of(weights[name], biases[name]) for name in "QKV")
    ln1 = _norm_of_bridge(block.ln1, cfg)
    return Layer(
        ln1,
        q,
        k,
        v,
        attn.W_O.detach(),
        _or_zero(attn.b_O, attn.W_O[0, 0]),
        float(getattr(attn.original_component, "scaling", cfg.d_head**-0.5)),
        _norm_of_bridge(block.ln2, cfg) if hasattr(block, "ln2") else ln1,
        _mlp_of_bridge(block.mlp, cfg) if mlps else None,
        _norm_of_bridge(block.ln1_post, cfg) if hasattr(block, "ln1_post") else None,
        _norm_of_bridge(block.ln2_post, cfg) if hasattr(block, "ln2_post") else None,
        _rotary_of_bridge(bridge, layer, clean),
        getattr(attn.original_component, "sliding_window", getattr(hf, "sliding_window", None)),
    )


def _mlp_of_bridge(mlp: Any, cfg: Any) -> Mlp:
    W_in, W_out, W_gate = mlp.W_in, mlp.W_out, mlp.W_gate if cfg.gated_mlp else None
    b_in, b_out = _or_zero(mlp.b_in, W_in[0]), _or_zero(mlp.b_out, W_out[0])
    return Mlp(ACTIVATIONS[cfg.act_fn], W_in, b_in, W_out, b_out, W_gate)


def _rotary_of_bridge(bridge: Any, layer: int, clean: Mapping[str, Tensor]) -> tuple[Tensor, Tensor] | None:
    if bridge.cfg.positional_embedding_type != "rotary":
        return None
    cos, sin = (clean.get(f"blocks.{layer}.attn.hook_{name}") for name in ("cos", "sin"))
    if cos is None or sin is None:
        return _rotary_of_config(bridge.cfg, next(bridge.parameters()).device, adjacent=True)
    return cos[0].clone(), sin[0].clone()  # no tensors of inference mode


def _norm_of_bridge(bridged: Any, cfg: Any) -> Norm:
    norm = bridged.original_component
    parts = (getattr(norm, name, None) for name in ("weight", "bias"))  # one without weights has neither
    weight, bias = (None if part is None else part.detach() for part in parts)
    if weight is not None and getattr(cfg, "rmsnorm_uses_offset", False):
        weight = weight + 1
    return Norm("RMS" if "RMS" in type(norm).__name__ else "LN", float(cfg.eps), weight, bias)


def _or_zero(bias: Tensor | None, like: Tensor) -> Tensor:
    return like.new_zeros(like.shape) if bias is None else bias.detach()


def _cap(value: float | None) -> float | None:
    return float(value) if value is not None and value > 0 else None
