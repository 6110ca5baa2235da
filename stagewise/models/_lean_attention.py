"""A layer's attention by its own weights: what it attends with, and what its heads read."""

import dataclasses
import math
from collections.abc import Mapping
from functools import cached_property

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise.models._held_attention import evenly, of_last
from stagewise.models._lean_weights import Layer, LeanWeights
from stagewise.models._numbers import widened
from stagewise.models._parts import capped
from stagewise.models._scored_positions import ScoredPositions

_SHORT = 32
"""Positions up to which plain matrix products are faster than a fused kernel."""


@dataclasses.dataclass(frozen=True, eq=False)
class Heads:
    """Queries, keys and values of a layer."""

    q: Float[Tensor, "batch head query d_head"]
    k: Float[Tensor, "batch head key d_head"]
    v: Float[Tensor, "batch head key d_head"]
    scale: float
    cap: float | None

    @cached_property
    def scores(self) -> Float[Tensor, "batch head query key"]:
        """Before any key is hidden."""
        return capped(widened(self.q @ self.k.mT) * self.scale, self.cap)

    @cached_property
    def values(self) -> Float[Tensor, "batch head key d_head"]:
        """Laid out as products read them, once for all passes."""
        return self.v.contiguous()


def project(
    weights: LeanWeights, number: int, x: Float[Tensor, "batch pos model"], queries: ScoredPositions | None
) -> Heads:
    """Return a layer's queries, keys and values, queries at the given positions alone (None for all)."""
    layer, length = weights.layers[number], x.shape[1]
    q, k, v = _projected(weights, layer, layer.ln1(x), queries)
    # Keys turn by every position's angle, queries by those of the positions at which they are computed.
    if layer.rotary is not None:
        cos, sin = (table[:length] for table in layer.rotary)
        k = turned_by(k, cos, sin, weights.adjacent)
        if queries is not None:
            cos, sin = (table[queries.index][:, None] for table in (cos, sin))
        q = turned_by(q, cos, sin, weights.adjacent)
    return _heads(weights, layer, q, k, v)


def shown(weights: LeanWeights, clean: Mapping[str, Tensor], queries: ScoredPositions | None) -> Heads | None:
    """Return the first layer's queries, keys and values in the clean pass; None where that does not show them."""
    if weights.shown is None or not clean.keys() >= set(weights.shown):
        return None
    q, k, v = (clean[name] for name in weights.shown)
    q = q if queries is None else queries.take(q)
    q, k, v = (rearrange(each, "batch pos head d_head -> batch head pos d_head") for each in (q, k, v))
    return _heads(weights, weights.layers[0], q, k, v)


def _heads(weights: LeanWeights, layer: Layer, q: Tensor, k: Tensor, v: Tensor) -> Heads:
    if weights.n_kv_heads < weights.n_heads:
        k, v = (each.repeat_interleave(weights.n_heads // weights.n_kv_heads, 1) for each in (k, v))
    return Heads(q, k, v, layer.scale, weights.score_cap)


def attend(
    layer: Layer, heads: Heads, queries: ScoredPositions | None, context: int | None
) -> Float[Tensor, "batch query head d_head"]:
    """Return every head's z at the queries (None for all positions), each attending to its last `context` keys."""
    q, k, v, length = heads.q, heads.k, heads.v, heads.k.shape[2]
    context = min((each for each in (context, layer.window) if each is not None), default=None)
    # The kernel shows no scores: caps and held keys, which change them, need plain products.
    fused = length > _SHORT and heads.cap is None and layer.held is None
    if fused and queries is None and context is None:
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=heads.scale)
    else:
        seen = _seen(length, queries, context, q.device)
        if fused:
            z = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=heads.scale)
        else:
            scores = heads.scores if layer.held is None else evenly(heads.scores, _held(layer.held, length, queries))
            z = scores.masked_fill(~seen, -math.inf).softmax(-1) @ heads.values
    return rearrange(z, "batch head query d_head -> batch query head d_head")


def _projected(
    weights: LeanWeights, layer: Layer, x: Tensor, queries: ScoredPositions | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values [batch head pos d_head]."""
    split = weights.n_heads * weights.d_head
    W, b = layer.W_QKV.T, layer.bias_qkv
    if weights.shortformer is not None:
        placed = x + weights.shortformer[: x.shape[1]]
        keys = split + weights.n_kv_heads * weights.d_head
        q = F.linear(placed if queries is None else queries.take(placed), W[:split], b[:split])
        rest = torch.cat([F.linear(placed, W[split:keys], b[split:keys]), F.linear(x, W[keys:], b[keys:])], -1)
    elif queries is None:
        q, rest = F.linear(x, W, b).tensor_split([split], -1)
    else:
        q, rest = F.linear(queries.take(x), W[:split], b[:split]), F.linear(x, W[split:], b[split:])
    # Keys and values are of one width, under grouped queries narrower than the queries.
    k, v = rest.chunk(2, -1)
    return tuple(rearrange(each, "b p (head d) -> b head p d", d=weights.d_head) for each in (q, k, v))  # type: ignore[return-value]


def _seen(
    length: int, queries: ScoredPositions | None, context: int | None, device: torch.device
) -> Bool[Tensor, "query key"] | Bool[Tensor, "#batch 1 query key"]:
    """Return the keys that each query attends to."""
    key = torch.arange(length, device=device)
    query = key[:, None] if queries is None else queries.distinct[:, None, :, None]
    seen = key <= query
    return seen if context is None else seen & (key > query - context)


def _held(
    keys: Bool[Tensor, "head pos pos"], length: int, queries: ScoredPositions | None
) -> Bool[Tensor, "head query key"] | Bool[Tensor, "batch head query key"]:
    """Return the keys that each query's heads are held at."""
    keys = of_last(keys, length, length)
    return keys if queries is None else keys[:, queries.index].transpose(0, 1)


def turned_by(x: Tensor, cos: Tensor, sin: Tensor, adjacent: bool) -> Tensor:
    """Turn pairs of the first dimensions by their position's angles."""
    # Dimensions beyond those of the tables do not turn.
    turned, rest = x.tensor_split([cos.shape[-1]], -1)
    if adjacent:
        one, two = turned[..., ::2], turned[..., 1::2]
        across = torch.stack([-two, one], -1).flatten(-2)
    else:
        one, two = turned.chunk(2, -1)
        across = torch.cat([-two, one], -1)
    return torch.cat([turned * cos + across * sin, rest], -1)
