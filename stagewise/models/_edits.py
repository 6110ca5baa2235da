"""Effects of edits on activations: attention restricted to the last positions, a head's output replaced."""

import math
from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise.intervention import AblateHead, AblateMLP, Ablation
from stagewise.models._numbers import NARROW, widened

_ROUNDING = 1e-4
"""By how much the sum of a pattern's row differs from one at most where it has no attention sink."""

_KEPT = 1e-2
"""Part of its attention that a query beside a sink keeps, for what is left to be known to four digits."""

_FACTORS = ("pattern", "values")
"""Kinds of ablations that replace one factor of z."""

Replacement = Callable[[Ablation], Float[Tensor, "#batch pos written"]]
"""The replacement of an ablated head's output z, or of an ablated MLP's output."""


class NothingLeftError(ValueError):
    """A restricted pattern cannot be renormalised: a query leaves next to no attention within the context."""


def in_context(n_query: int, n_key: int, context: int, device: torch.device | str = "cpu") -> Bool[Tensor, "query key"]:
    """Return the keys within the last `context` positions of each query, itself included."""
    query = torch.arange(n_key - n_query, n_key, device=device)[:, None]
    key = torch.arange(n_key, device=device)[None]
    return (key > query - context) & (key <= query)


def restrict_scores(scores: Float[Tensor, "*axes query key"], context: int) -> Float[Tensor, "*axes query key"]:
    """Set scores outside the context to -inf, before the softmax."""
    return scores.masked_fill(~in_context(scores.shape[-2], scores.shape[-1], context, scores.device), -math.inf)


def restrict_pattern(pattern: Float[Tensor, "*axes query key"], context: int) -> Float[Tensor, "*axes query key"]:
    """Set a pattern outside the context to 0, after the softmax, and renormalise: equal to `restrict_scores`."""
    inside, total, least = _within(pattern, context)
    if not bool((total > least).all()):
        raise NothingLeftError(
            f"some query leaves {total.min().item():.2g} of its attention within the last {context} positions"
            f"{' and its sink' if least else ''}: its restricted pattern is computed by renormalising, from more than "
            f"{least:g}. Take a larger context"
        )
    return (inside / total).to(pattern.dtype)


def leaves_attention(pattern: Float[Tensor, "*axes query key"], context: int) -> bool:
    """Whether every query keeps some attention within the context, by which a pattern can be renormalised."""
    _, total, least = _within(pattern, context)
    return bool((total > least).all())


def well_known(pattern: Float[Tensor, "*axes query key"], context: int) -> Bool[Tensor, "*axes query"]:
    """Return which queries' restricted patterns are known to many digits: beside a sink, what little is left is not."""
    _, total, least = _within(pattern, context)
    return (total > (_KEPT if least else 0.0)).squeeze(-1)


def _within(pattern: Tensor, context: int) -> tuple[Tensor, Tensor, float]:
    """Return the pattern within the context, what its rows are divided by, and what these must exceed."""
    rounding = torch.finfo(pattern.dtype).eps if pattern.dtype in NARROW else _ROUNDING
    pattern = widened(pattern)
    inside = pattern * in_context(pattern.shape[-2], pattern.shape[-1], context, pattern.device)
    # An attention sink takes a share of each row that no key shows; it is within every context.
    sink, total = 1 - pattern.sum(-1, keepdim=True), inside.sum(-1, keepdim=True)
    if bool((sink < -rounding).any()):
        raise ValueError(f"the rows of an attention pattern sum to one at most, got {1 - sink.min().item():.4g}")
    if bool((sink > rounding).any()):
        return inside, total + sink, rounding
    return inside, total, 0.0


def replacement(
    part: Ablation, clean: Mapping[str, Tensor], mean: Mapping[str, Tensor] | None = None, *, checked: bool = False
) -> Float[Tensor, "#batch pos written"]:
    """Return the replacement of a head's z, or of an MLP's output, as the ablation says."""
    if isinstance(part, AblateMLP):
        written = clean[mlp_hook(part.layer)]
        return torch.zeros_like(written[:1]) if part.kind == "zero" else _mean(written, mean, mlp_hook(part.layer))
    if not checked:
        check_factors(part, clean)
    return _ablated(part, clean, mean)


def _ablated(
    part: AblateHead, clean: Mapping[str, Tensor], mean: Mapping[str, Tensor] | None
) -> Float[Tensor, "#batch pos d_head"]:
    name = f"blocks.{part.layer}.attn.hook_"
    z = clean[f"{name}z"][:, :, part.head]
    if part.kind == "zero":
        return torch.zeros_like(z[:1])
    if part.kind == "resample":
        return z.roll(1, dims=0)
    if part.kind == "mean":
        return _mean(z, mean, f"{name}z", (slice(None), slice(None), part.head))
    in_pattern, in_values = _factors(part, clean)
    pattern, values = clean[f"{name}pattern"][in_pattern], clean[f"{name}v"][in_values]
    if part.kind == "pattern":
        return _mean(pattern, mean, f"{name}pattern", in_pattern) @ values
    return pattern @ _mean(values, mean, f"{name}v", in_values)


def _factors(part: AblateHead, clean: Mapping[str, Tensor]) -> tuple[tuple[slice | int, ...], tuple[slice | int, ...]]:
    """Return where a head's pattern and values are in those of its layer; grouped queries share values."""
    heads, shared = (clean[f"blocks.{part.layer}.attn.hook_{which}"] for which in ("pattern", "v"))
    group = part.head * shared.shape[2] // heads.shape[1]
    return (slice(None), part.head), (slice(None), slice(None), group)


def check_factors(part: Ablation, clean: Mapping[str, Tensor]) -> None:
    """Check, where an ablation replaces a factor of z, that the pattern times the values is z."""
    if isinstance(part, AblateMLP) or part.kind not in _FACTORS:
        return
    name, (in_pattern, in_values) = f"blocks.{part.layer}.attn.hook_", _factors(part, clean)
    z = clean[f"{name}z"][:, :, part.head]
    product = clean[f"{name}pattern"][in_pattern] @ clean[f"{name}v"][in_values]
    if not bool((product - z).abs().max() <= _ROUNDING * z.abs().max().clamp(min=1)):
        fault = f"the pattern of L{part.layer}H{part.head} times its values is not what it writes"
        raise ValueError(f'as this model shows them, {fault}: ablate it by "zero", "mean" or "resample"')


def _mean(
    ablated: Tensor, means: Mapping[str, Tensor] | None, name: str, index: tuple[slice | int, ...] = ()
) -> Tensor:
    """Return the mean over sequences: of these, or of more where it is known."""
    known = (means or {}).get(name)
    return ablated.mean(0, keepdim=True) if known is None else known[index]


def mlp_hook(layer: int) -> str:
    """Return the hook of the MLP's output to the residual stream in a layer."""
    return f"blocks.{layer}.hook_mlp_out"


def read_for(part: Ablation) -> set[str]:
    """Name the activations of the clean pass that a replacement is made from."""
    if isinstance(part, AblateMLP):
        return {mlp_hook(part.layer)}
    factors = ("pattern", "v") if part.kind in _FACTORS else ()
    return {f"blocks.{part.layer}.attn.hook_{which}" for which in ("z", *factors)}


def ablate(
    z: Float[Tensor, "batch pos *axes"], head: int, replaced: Float[Tensor, "#batch pos d_head"], n_heads: int
) -> Float[Tensor, "batch pos *axes"]:
    """Return z, in whatever pieces, with one head's output replaced."""
    changed = by_head(z.clone(), n_heads)
    changed[:, :, head] = replaced
    return changed.reshape(z.shape)


def by_head(z: Float[Tensor, "batch pos *axes"], n_heads: int) -> Float[Tensor, "batch pos head d_head"]:
    """Return z with an axis of heads: some bridges cut what the heads write one behind the other into other pieces."""
    width = z.shape[2:].numel()
    if z.dim() < 3 or width % n_heads:
        raise ValueError(f"z is [batch pos head d_head] with {n_heads} heads, got the shape {tuple(z.shape)}")
    return z if z.shape[2:-1] == (n_heads,) else z.reshape(*z.shape[:2], n_heads, width // n_heads)
