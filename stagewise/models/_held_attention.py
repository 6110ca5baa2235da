"""Attention that is held: from some queries a head attends evenly to given keys, whatever its weights say.

A query that sees none of its keys attends as the weights say, under a restricted context too. The keys are saved beside
the weights, and belong to what is loaded.
"""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from stagewise.models import _native as native
from stagewise.models._model import Model

HELD_KEYS = "attn.held_keys"
"""How a layer's keys are called in a checkpoint, behind its block."""


HeldKeys = Mapping[int, Bool[Tensor, "head query key"]]
"""The keys that heads are held at, by layer."""


_HELD: WeakKeyDictionary[Any, tuple[HeldKeys, list[Any]]] = WeakKeyDictionary()
"""The keys of a model, and what to call to let go of them."""


def held_keys(model: Model | nn.Module) -> dict[int, Bool[Tensor, "head query key"]]:
    """Return the keys that heads of a model are held at, by layer; those of a query that is free are all False."""
    return dict(_HELD[model][0]) if model in _HELD else {}


def hold(model: Model, keys: HeldKeys) -> None:
    """Hold heads of a HookedTransformer or a native bridge at these keys, by layer, and no others."""
    _, handles = _HELD.pop(model, ({}, []))
    for handle in handles:
        handle.remove()
    if keys:
        device = next(model.parameters()).device
        placed = {layer: each.to(device) for layer, each in keys.items()}
        _HELD[model] = placed, [_hooked(model, layer, each) for layer, each in placed.items()]


@contextlib.contextmanager
def released(model: Model) -> Iterator[None]:
    """Let go of what is held for the time of a `with` block."""
    keys = held_keys(model)
    hold(model, {})
    try:
        yield
    finally:
        hold(model, keys)


def saved(model: Model | nn.Module) -> dict[str, Tensor]:
    """Return the keys by the names under which a checkpoint holds them."""
    return {f"blocks.{layer}.{HELD_KEYS}": keys.clone() for layer, keys in held_keys(model).items()}


def read(state: Mapping[str, Tensor], model: Model) -> dict[int, Bool[Tensor, "head query key"]]:
    """Return the keys that a checkpoint holds, by layer."""
    cfg, keys = model.cfg, {name: state[name] for name in state if name.endswith(HELD_KEYS)}
    names, shape = [f"blocks.{layer}.{HELD_KEYS}" for layer in range(cfg.n_layers)], (cfg.n_heads, cfg.n_ctx, cfg.n_ctx)
    for name, each in keys.items():
        if name not in names or tuple(each.shape) != shape:
            layers = f"the model has {cfg.n_layers} layers, which hold {shape}"
            raise ValueError(f"the weights do not fit the model: {name} {tuple(each.shape)} saved, {layers}")
    return {names.index(name): each.bool() for name, each in keys.items()}


def evenly(
    scores: Float[Tensor, "*axes query key"], keys: Bool[Tensor, "*#axes query key"]
) -> Float[Tensor, "*axes query key"]:
    """Return scores whose softmax lies evenly on a query's keys, where it sees any (a score of -inf hides a key)."""
    # The largest finite number in place of inf: the softmax subtracts the maximum, and inf - inf is nan.
    return scores.masked_fill(keys & ~scores.isneginf(), torch.finfo(scores.dtype).max)


def of_last(keys: Bool[Tensor, "head query key"], n_query: int, n_key: int) -> Bool[Tensor, "head last seen"]:
    """Return the keys of the last `n_query` of `n_key` positions."""
    return keys[:, n_key - n_query : n_key, :n_key]


def _hooked(model: Model, layer: int, keys: Bool[Tensor, "head query key"]) -> Any:
    attention = model.blocks[layer].attn
    if native.is_native(model):
        return attention.original_component.register_forward_pre_hook(_of_native(keys), with_kwargs=True)

    def hold_scores(point: Any, arguments: Any, scores: Tensor) -> Tensor:
        return evenly(scores, of_last(keys, *scores.shape[-2:]).to(scores.device))

    # A hook of torch's own: it stays when TransformerLens removes the model's, and comes before any that are added.
    return attention.hook_attn_scores.register_forward_hook(hold_scores)


def _of_native(keys: Bool[Tensor, "head query key"]) -> Any:
    """Return the holder of the pattern of a native bridge's attention, whose scores no hook reaches."""

    def hold_pattern(attention: Any, arguments: tuple[Tensor, ...], named: dict[str, Any]) -> Any:
        x = named["hidden_states"] if "hidden_states" in named else arguments[0]
        batch, length = x.shape[:2]
        hidden = attention.causal_mask[:length, :length]
        if (mask := named.get("attention_mask")) is not None:
            hidden = attention._combine_attention_mask(hidden, mask, batch=batch)
        seen = of_last(keys, length, length).to(x.device) & ~hidden
        shown = named.get("pattern_fn") or (lambda pattern: pattern)

        def held(pattern: Tensor) -> Any:
            even = seen / seen.sum(-1, keepdim=True).clamp(min=1)
            return shown(torch.where(seen.any(-1, keepdim=True), even.to(pattern.dtype), pattern))

        return arguments, {**named, "pattern_fn": held}

    return hold_pattern
