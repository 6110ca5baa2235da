"""Edited passes through a TransformerBridge, whose hooks are not all live: a trial finds which edits it supports."""

import contextlib
import warnings
from collections.abc import Mapping
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from stagewise.attention import z_hook
from stagewise.intervention import Edit, RestrictContext, first_layer
from stagewise.models._bridge_loading import name_of
from stagewise.models._edits import (
    NothingLeftError,
    Replacement,
    by_head,
    in_context,
    leaves_attention,
    restrict_pattern,
    restrict_scores,
)
from stagewise.models._hooked_edits import edit_hooks
from stagewise.models._model import Bridge, Hook, Model
from stagewise.models._native import is_native, logits_from
from stagewise.models._numbers import products_in, same

_Route = Literal["mask", "scores", "pattern", "z"]

_ROUTES: WeakKeyDictionary[Any, _Route] = WeakKeyDictionary()


def edited_logits(
    bridge: Bridge, edit: Edit, clean: Mapping[str, Tensor], replacement: Replacement, tokens: Tensor | None = None
) -> Float[Tensor, "batch pos token"]:
    """Return the logits from the first edited layer's clean input on, which replaces a Hugging Face model's there."""
    name = f"blocks.{first_layer(edit)}.hook_resid_pre"
    if tokens is None or tokens.is_floating_point():
        tokens = torch.zeros(clean[name].shape[:2], dtype=torch.int64, device=clean[name].device)
    parts = [part for part in edit if not isinstance(part, RestrictContext)]
    ablations = [hook for part in parts for hook in edit_hooks(bridge, part, replacement)]
    contexts = [part.context for part in edit if isinstance(part, RestrictContext)]
    if is_native(bridge) and (not contexts or _route(bridge) == "mask"):
        mask = _mask(tokens, min(contexts)) if contexts else None
        with bridge.hooks(fwd_hooks=ablations):
            return logits_from(bridge, first_layer(edit), clean[name], mask)
    hooks = [_put(name, clean[name]), *ablations]
    if contexts:
        hooks = _restrict(bridge, tokens, hooks, min(contexts))
    return bridge.run_with_hooks(tokens, fwd_hooks=hooks)


def _put(name: str, value: Tensor) -> Hook:
    return name, lambda activation, hook: value.reshape(activation.shape)


def _mask(tokens: Tensor, context: int) -> Tensor:
    """Return the mask of a native bridge's pass, which marks the keys to leave out."""
    length = tokens.shape[1]
    return ~in_context(length, length, context, tokens.device)[None, None]


def _restrict(bridge: Bridge, tokens: Tensor, hooks: list[Hook], context: int) -> list[Hook]:
    """Return the hooks of the whole edit, the restriction made by the route that this model supports."""
    if (route := _route(bridge)) in ("scores", "pattern"):
        return [*hooks, *_restrictions(bridge, route, context)]
    return _inject(bridge, tokens, hooks, context)


def _restrictions(bridge: Bridge, by: _Route, context: int) -> list[Hook]:
    """Return the hooks that restrict the scores, or the pattern, of every layer."""

    def restrict(activation: Tensor, hook: object) -> Tensor:
        return restrict_scores(activation, context) if by == "scores" else restrict_pattern(activation, context)

    name = "attn_scores" if by == "scores" else "pattern"
    return [(f"blocks.{layer}.attn.hook_{name}", restrict) for layer in range(bridge.cfg.n_layers)]


def _inject(bridge: Bridge, tokens: Tensor, hooks: list[Hook], context: int) -> list[Hook]:
    """Return hooks that write every layer's z, each computed in a pass: some models show the pattern after its use."""
    others = [hook for hook in hooks if not hook[0].endswith("hook_z")]
    written: list[Hook] = []
    for layer in range(bridge.cfg.n_layers):
        pattern, values, _ = _attention(bridge, tokens, layer, [*others, *written])
        z = weighted(restrict_pattern(pattern, context), values)
        for name, change in hooks:
            if name == z_hook(layer):
                changed = change(z, hook=None)
                assert changed is not None
                z = changed
        written.append(_put(z_hook(layer), z))
    return [*others, *written]


def _route(bridge: Bridge) -> _Route:
    """Test which edit a model supports: with attention to the query itself, z must be its own value beside a sink."""
    if bridge not in _ROUTES:
        with warnings.catch_warnings(), products_in("float32", next(bridge.parameters()).device):
            warnings.filterwarnings("ignore", "A hook on .* returned a modified tensor", UserWarning)  # as it is meant
            _ROUTES[bridge] = _test_routes(bridge)
    return _ROUTES[bridge]


def _test_routes(bridge: Bridge) -> _Route:
    length = min(4, bridge.cfg.n_ctx)
    device = next(bridge.parameters()).device
    tokens = (torch.arange(length, device=device) % bridge.cfg.d_vocab)[None]
    layers = range(bridge.cfg.n_layers)
    clean = [_attention(bridge, tokens, layer, []) for layer in layers]
    if not all(same(weighted(pattern, values), z) for pattern, values, z in clean):
        raise ValueError(
            f"the heads of {name_of(bridge)} are not pattern times values, so their context "
            "cannot be restricted: leave the probes that ask for RestrictContext out, as by --without"
        )
    if any(_is_restricted(*each) for each in clean):
        return "z"  # the test cannot tell a live edit from a dead one
    if is_native(bridge):  # its scores are dead, and a pattern can underflow within the context
        results = [_attention(bridge, tokens, layer, [], attention_mask=_mask(tokens, 1)) for layer in layers]
        if all(_is_restricted(*each) for each in results):
            return "mask"
    candidates: tuple[_Route, ...] = ("scores", "pattern")
    for candidate in candidates:
        edit = _restrictions(bridge, candidate, 1)
        with contextlib.suppress(NothingLeftError):  # and nothing to tell a live pattern by
            if all(_is_restricted(*_attention(bridge, tokens, layer, edit)) for layer in layers):
                return candidate
    return "z"


def _is_restricted(pattern: Tensor, values: Tensor, z: Tensor) -> bool:
    """Whether z is made of each query's own value alone, and of an attention sink where the pattern lacks its mass."""
    return leaves_attention(pattern, 1) and same(weighted(restrict_pattern(pattern, 1), values), z)


def _attention(
    bridge: Bridge, tokens: Tensor, layer: int, hooks: list[Hook], **named: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return pattern, values and z of a layer in a pass with the hooks and further arguments."""
    activations: dict[str, Tensor] = {}

    def record(name: str) -> Hook:
        def store(x: Tensor, hook: Any) -> None:
            activations[name] = x.detach().clone()

        return f"blocks.{layer}.attn.hook_{name}", store

    with torch.inference_mode():
        bridge.run_with_hooks(tokens, fwd_hooks=[*hooks, *(record(name) for name in ("pattern", "v", "z"))], **named)
    if missing := {"pattern", "v", "z"} - activations.keys():
        raise ValueError(
            f"{name_of(bridge)} shows no {', '.join(sorted(missing))} in layer {layer}: no attention of heads, or a "
            'kernel of its own; wrap it after `set_attn_implementation("eager")`, or leave the probes that ask for '
            "RestrictContext out"
        )
    pattern, values, z = (activations[name] for name in ("pattern", "v", "z"))
    return pattern, values_by_key(bridge, layer, values), by_head(z, bridge.cfg.n_heads)


def values_by_key(model: Model, layer: int, values: Tensor) -> Float[Tensor, "batch key kv_head d_head"]:
    """Return a layer's hook_v with the axes of all others: latent attention's has the heads first."""
    return values.transpose(1, 2) if f"blocks.{layer}.attn.hook_kv_latent" in model.hook_dict else values


def weighted(
    pattern: Float[Tensor, "batch head query key"], values: Float[Tensor, "batch key kv_head d_head"]
) -> Float[Tensor, "batch query head d_head"]:
    """Return z, the values weighted by the pattern; under grouped-query attention heads share them."""
    each = values.repeat_interleave(pattern.shape[1] // values.shape[2], 2)
    return einsum(pattern, each, "batch head query key, batch key head d_head -> batch query head d_head")
