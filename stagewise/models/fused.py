"""The forward pass of training: the model's own parameters through fused attention, without hooks."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from stagewise.models import native
from stagewise.models.model import Config, Model

TOLERANCE = 1e-4
"""Largest difference of logits from the hooked model's: float32 sums taken in another order stay far below it."""

_FREE = frozenset(
    [
        "n_layers",
        "n_heads",
        "n_ctx",
        "n_params",
        "d_model",
        "d_head",
        "d_mlp",
        "d_vocab",
        "d_vocab_out",
        "eps",
        "act_fn",
        "attn_only",
        "normalization_type",
        "positional_embedding_type",
        "use_attn_scale",
        "attn_scale",
        "scale_attn_by_inverse_layer_idx",
        "model_name",
        "device",
        "seed",
        "init_mode",
        "init_weights",
        "initializer_range",
        "use_attn_result",
        "use_split_qkv_input",
        "use_hook_mlp_in",
        "use_attn_in",
        "default_prepend_bos",
    ]
)
"""The config fields that the fused pass reads, or that do not change what the model computes."""

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}

_Read = Callable[[Tensor, Tensor], Tensor]
"""From a weight and a bias to what the layer's input becomes under them."""

_PLAIN_NATIVE = {
    **{"positional_embedding_type": "standard", "attention_dir": "causal", "gated_mlp": False, "final_rms": False},
    **{"n_key_value_heads": None, "attn_scores_soft_cap": -1.0, "output_logits_soft_cap": -1.0},
}
"""What the fused pass covers of the fields that a native bridge computes with."""


def training_forward(
    model: Model, tokens: Int[Tensor, "batch pos"] | Float[Tensor, "batch pos feature"]
) -> Callable[[Tensor], Float[Tensor, "batch pos token"]]:
    """Return the fastest function from tokens (or vectors) to logits that gives the model's values by its parameters.

    The fused pass is checked against the model on `tokens`; where the config is not covered or the two differ by
    more than TOLERANCE, it is the model itself.
    """
    # Hooks that stay with a model are part of what it computes; with zero weights the comparison below would miss them.
    if not _covers(model) or any(point.fwd_hooks for point in model.hook_dict.values()):
        return model
    is_native = native.is_native(model)
    parameters = native.parameters(model) if is_native else dict(model.named_parameters())

    def fused(tokens: Tensor) -> Tensor:
        return _logits(model, native.views(parameters, model.cfg) if is_native else parameters, tokens)

    with torch.no_grad():
        difference = (fused(tokens) - model(tokens)).abs().max().item()
    return fused if difference <= TOLERANCE else model


def _covers(model: Model) -> bool:
    cfg = model.cfg
    # Every other field stands at its default: a soft cap, for instance, does not change the first logits.
    if native.is_native(model):
        plain = all(getattr(cfg, field) == value for field, value in _PLAIN_NATIVE.items())
    elif hasattr(model, "original_model"):
        return False  # Hugging Face's parameters have other names
    else:
        plain = all(
            getattr(cfg, field.name) == field.default for field in fields(cast(Any, cfg)) if field.name not in _FREE
        )
    activation = cfg.attn_only or cfg.act_fn in _ACTIVATIONS
    positions = cfg.positional_embedding_type in ("standard", "shortformer")
    return plain and activation and positions and cfg.normalization_type in (None, "LN", "LNPre")


def _logits(model: Model, weights: Mapping[str, Tensor], tokens: Tensor) -> Tensor:
    cfg, W_E, positions = model.cfg, weights["embed.W_E"], weights["pos_embed.W_pos"][: tokens.shape[1]]
    embedded = tokens @ W_E if tokens.is_floating_point() else W_E[tokens]
    shortformer = cfg.positional_embedding_type == "shortformer"
    x = embedded if shortformer else embedded + positions
    for layer in range(cfg.n_layers):
        block = f"blocks.{layer}."
        normed = _norm(cfg, weights, f"{block}ln1", x)
        read, read_values = partial(F.linear, normed + positions if shortformer else normed), partial(F.linear, normed)
        if layer == 0 and not shortformer and _reads_a_small_vocabulary(cfg, tokens):
            read = read_values = partial(_read_embedding, W_E, positions, tokens)
        x = x + _attention(model, layer, weights, read, read_values)
        if not cfg.attn_only:
            hidden = _norm(cfg, weights, f"{block}ln2", x) @ weights[f"{block}mlp.W_in"] + weights[f"{block}mlp.b_in"]
            x = x + _ACTIVATIONS[cfg.act_fn](hidden) @ weights[f"{block}mlp.W_out"] + weights[f"{block}mlp.b_out"]
    return _norm(cfg, weights, "ln_final", x) @ weights["unembed.W_U"] + weights["unembed.b_U"]


def _norm(cfg: Config, weights: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    if cfg.normalization_type is None:
        return x
    return F.layer_norm(x, (cfg.d_model,), weights.get(f"{name}.w"), weights.get(f"{name}.b"), cfg.eps)


def _reads_a_small_vocabulary(cfg: Config, tokens: Tensor) -> bool:
    return cfg.normalization_type is None and not tokens.is_floating_point() and cfg.d_vocab < tokens.numel()


def _read_embedding(W_E: Tensor, positions: Tensor, tokens: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    # The map of every token and of every position, once each: far fewer rows than positions in a batch.
    return F.embedding(tokens, F.linear(W_E, weight)) + F.linear(positions, weight, bias)


def _attention(model: Model, layer: int, weights: Mapping[str, Tensor], read: _Read, read_values: _Read) -> Tensor:
    attention = f"blocks.{layer}.attn."
    # One matrix product for all heads of a projection: several times faster here than einsum's batched products.
    q, k, v = (
        rearrange(
            source(
                rearrange(weights[f"{attention}W_{name}"], "head m d -> (head d) m"),
                weights[f"{attention}b_{name}"].flatten(),
            ),
            "b p (head d) -> b head p d",
            head=weights[f"{attention}W_{name}"].shape[0],
        )
        for name, source in (("Q", read), ("K", read), ("V", read_values))
    )
    scale = native.attn_scale(model) if native.is_native(model) else model.blocks[layer].attn.attn_scale
    z = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1 / scale)
    z = rearrange(z, "b head p d -> b p (head d)")
    return F.linear(z, rearrange(weights[f"{attention}W_O"], "head d m -> m (head d)"), weights[f"{attention}b_O"])
