"""Edited passes through a TransformerBridge, whose hooks are not all live: what a model honours is tried out first."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from stagewise.intervention import AblateHead, Edit, RestrictContext, first_layer
from stagewise.models.edits import ablate, cut_pattern, cut_scores, kept
from stagewise.models.model import Bridge, Hook
from stagewise.models.native import is_native, logits_from

Route = Literal["mask", "scores", "pattern", "z"]

SAME = 1e-4
"""Relative difference of z and pattern times v that sums in another order explain."""

_ROUTES: WeakKeyDictionary[Any, Route] = WeakKeyDictionary()


def edited_logits(bridge: Bridge, edit: Edit, clean: Mapping[str, Tensor]) -> Float[Tensor, "batch pos token"]:
    """Run the bridge from the first edited layer's clean input on; return its logits.

    Around a Hugging Face model it cannot start at a layer: it runs from dummy tokens, and that input is put in their
    place.

    Raises:
        ValueError: a restricted context of a model whose attention can be neither read nor replaced.
    """
    name = f"blocks.{first_layer(edit)}.hook_resid_pre"
    tokens = torch.zeros(clean[name].shape[:2], dtype=torch.int64, device=clean[name].device)
    ablations = _ablations(edit, clean)
    contexts = [part.context for part in edit if isinstance(part, RestrictContext)]
    if is_native(bridge) and (not contexts or route(bridge) == "mask"):
        mask = _mask(tokens, min(contexts))["attention_mask"] if contexts else None
        with bridge.hooks(fwd_hooks=ablations):
            return logits_from(bridge, first_layer(edit), clean[name], mask)
    hooks = [_put(name, clean[name]), *ablations]
    if contexts:
        hooks = _restrict(bridge, tokens, hooks, min(contexts))
    logits: Tensor = bridge.run_with_hooks(tokens, fwd_hooks=hooks)
    return logits


def _ablations(edit: Edit, clean: Mapping[str, Tensor]) -> list[Hook]:
    hooks: list[Hook] = []
    for part in edit:
        if isinstance(part, AblateHead):
            name = f"blocks.{part.layer}.attn.hook_z"
            hooks.append((name, lambda z, hook, part=part, name=name: ablate(z, part, clean.get(name))))
    return hooks


def _put(name: str, value: Tensor) -> Hook:
    return name, lambda there, hook: value


def _mask(tokens: Tensor, context: int) -> dict[str, Tensor]:
    """Return the argument of a native bridge's pass that says which keys to leave out."""
    length = tokens.shape[1]
    return {"attention_mask": ~kept(length, length, context, tokens.device)[None, None]}


def _restrict(bridge: Bridge, tokens: Tensor, hooks: list[Hook], context: int) -> list[Hook]:
    """Return the hooks of the whole edit, the restriction made in the way that this model honours."""
    way = route(bridge)
    layers = range(bridge.cfg.n_layers)
    if way == "scores":
        cuts = [(f"blocks.{k}.attn.hook_attn_scores", lambda scores, hook: cut_scores(scores, context)) for k in layers]
        return [*hooks, *cuts]
    if way == "pattern":
        cuts = [(f"blocks.{k}.attn.hook_pattern", lambda pattern, hook: cut_pattern(pattern, context)) for k in layers]
        return [*hooks, *cuts]
    return _inject(bridge, tokens, hooks, context)


def _inject(bridge: Bridge, tokens: Tensor, hooks: list[Hook], context: int) -> list[Hook]:
    """Compute every layer's z from its pattern and values, layer by layer, and return the hooks that write it.

    Costs a pass a layer. Some models show the pattern only after z was used, so one pass cannot do it.
    """
    others = [hook for hook in hooks if not hook[0].endswith("hook_z")]
    written: list[Hook] = []
    for layer in range(bridge.cfg.n_layers):
        pattern, values, _ = _attention(bridge, tokens, layer, [*others, *written])
        z = _weighted(cut_pattern(pattern, context), values)
        for name, change in hooks:
            if name == f"blocks.{layer}.attn.hook_z":
                changed = change(z, hook=None)
                assert changed is not None
                z = changed
        written.append(_put(f"blocks.{layer}.attn.hook_z", z))
    return [*others, *written]


def route(bridge: Bridge) -> Route:
    """Try which edit of attention this model honours: a mask, of the scores, of the pattern, or only of z.

    With attention cut to the query itself, every z must be the query's own value.

    Raises:
        ValueError: none of them; the message says what to do.
    """
    if bridge not in _ROUTES:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "A hook on .* returned a modified tensor", UserWarning)  # so it is tried
            _ROUTES[bridge] = _try_routes(bridge)
    return _ROUTES[bridge]


def _try_routes(bridge: Bridge) -> Route:
    length = min(4, bridge.cfg.n_ctx)
    device = next(bridge.parameters()).device
    tokens = (torch.arange(length, device=device) % bridge.cfg.d_vocab)[None]
    layers = range(bridge.cfg.n_layers)
    clean = [_attention(bridge, tokens, layer, []) for layer in layers]
    if not all(_same(_weighted(pattern, values), z) for pattern, values, z in clean):
        raise ValueError(
            f"the heads of {type(bridge.original_model).__name__} are not pattern times values, so their context "
            "cannot be restricted: leave RestrictContext out for this model"
        )
    if any(_same(_repeated(values, z.shape[2]), z) for _, values, z in clean):
        return "z"  # the trial could not tell a live edit from a dead one
    if is_native(bridge):  # its scores are dead, and a pattern can underflow within the context
        tried = [_attention(bridge, tokens, layer, [], **_mask(tokens, 1)) for layer in layers]
        if all(_same(_repeated(values, z.shape[2]), z) for _, values, z in tried):
            return "mask"
    ways: dict[Route, Callable[[Tensor], Tensor]] = {
        "scores": lambda scores: cut_scores(scores, 1),
        "pattern": lambda pattern: cut_pattern(pattern, 1),
    }
    for way, cut in ways.items():
        name = "attn_scores" if way == "scores" else way
        edit: list[Hook] = [(f"blocks.{k}.attn.hook_{name}", lambda x, hook, cut=cut: cut(x)) for k in layers]
        tried = [_attention(bridge, tokens, layer, edit) for layer in layers]
        if all(_same(_repeated(values, z.shape[2]), z) for _, values, z in tried):
            return way
    return "z"


def _attention(
    bridge: Bridge, tokens: Tensor, layer: int, hooks: list[Hook], **named: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return pattern, values and z of a layer in a pass with the hooks and further arguments."""
    seen: dict[str, Tensor] = {}

    def look(name: str) -> Hook:
        def keep(x: Tensor, hook: Any) -> None:
            seen[name] = x.detach().clone()

        return f"blocks.{layer}.attn.hook_{name}", keep

    with torch.inference_mode():
        bridge.run_with_hooks(tokens, fwd_hooks=[*hooks, *(look(name) for name in ("pattern", "v", "z"))], **named)
    if missing := {"pattern", "v", "z"} - seen.keys():
        raise ValueError(
            f"{type(bridge.original_model).__name__} shows no {', '.join(sorted(missing))} in layer {layer}: wrap it "
            'after `set_attn_implementation("eager")`'
        )
    return seen["pattern"], seen["v"], seen["z"]


def _weighted(
    pattern: Float[Tensor, "batch head query key"], values: Float[Tensor, "batch key kv_head d_head"]
) -> Float[Tensor, "batch query head d_head"]:
    each = _repeated(values, pattern.shape[1])
    return einsum(pattern, each, "batch head query key, batch key head d_head -> batch query head d_head")


def _repeated(
    values: Float[Tensor, "batch key kv_head d_head"], n_heads: int
) -> Float[Tensor, "batch key head d_head"]:
    """Give every query head its values; under grouped-query attention several share them."""
    return values.repeat_interleave(n_heads // values.shape[2], 2)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool((one - other).abs().max() <= SAME * other.abs().max())
