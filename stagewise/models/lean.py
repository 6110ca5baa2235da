"""Edited passes by a model's own parameters: what an edit leaves as it was is taken from the clean pass.

An ablation needs no attention of its own layer: what the head wrote is added to the clean residual stream, less what it
writes instead. The last layer and the unembedding are computed at the scored positions alone.
"""

import dataclasses
import math
from collections.abc import Mapping
from functools import cached_property

import torch
import torch.nn.functional as F
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise.intervention import AblateHead, Edit, RestrictContext, first_layer
from stagewise.models.edits import Replacement
from stagewise.models.lean_reading import lean_weights
from stagewise.models.lean_weights import Layer, LeanWeights, capped
from stagewise.models.model import Model
from stagewise.models.queries import Queries

SAME = 1e-4
"""Difference from the model's own log-probabilities, over their spread, that sums in another order explain."""

TRIED = 2
"""Sequences on which every checkpoint's lean pass is compared with its own."""

SHORT = 32
"""Positions up to which plain matrix products are faster than a fused kernel."""


@dataclasses.dataclass(frozen=True, eq=False)
class LeanPass:
    """The edited passes of one checkpoint on some sequences.

    Args:
        weights: of the model.
        clean: the activations of the clean pass that `passes.hooks_for` names.
        scored: which predictions count.
        replacement: what an ablated head's output is replaced by.
    """

    weights: LeanWeights
    clean: Mapping[str, Tensor]
    scored: Bool[Tensor, "batch pos"]
    replacement: Replacement

    @cached_property
    def queries(self) -> Queries:
        """The scored positions."""
        return Queries.of(self.scored)

    def residual(self, edit: Edit) -> Float[Tensor, "scored model"]:
        """Return the residual stream behind the last layer, at the scored positions, of the pass with the edit."""
        context = min((part.context for part in edit if isinstance(part, RestrictContext)), default=None)
        start, last = first_layer(edit), len(self.weights.layers) - 1
        x = self.clean[f"blocks.{start}.hook_resid_pre"]
        for number in range(start, last + 1):
            ablated = [part for part in edit if isinstance(part, AblateHead) and part.layer == number]
            queries = self.queries if number == last else None
            here = x if queries is None else queries.take(x)
            if number == start and context is None:
                written = self._clean_attention(number, queries) + self._change(number, ablated, queries)
            else:
                z = attend(self.weights, number, x, queries, context)
                written = write(self.weights.layers[number], self._ablate(z, ablated, queries))
            x = behind(self.weights, number, here, written)
        return self.queries.flat(x)

    def _clean_attention(self, number: int, queries: Queries | None) -> Tensor:
        if number not in self._written:
            self._written.clear()  # edits come layer by layer
            z = self.clean[f"blocks.{number}.attn.hook_z"]
            self._written[number] = write(self.weights.layers[number], z)
        written = self._written[number]
        return written if queries is None else queries.take(written)

    @cached_property
    def _written(self) -> dict[int, Tensor]:
        return {}

    def _change(self, number: int, ablated: list[AblateHead], queries: Queries | None) -> Tensor:
        """Return what the ablations add to what the layer's attention writes."""
        z, change = self.clean[f"blocks.{number}.attn.hook_z"], torch.zeros((), device=self.scored.device)
        for part in ablated:
            head = z[:, :, part.head]
            difference = self._replaced(part, queries) - (head if queries is None else queries.take(head))
            change = change + difference @ self.weights.layers[number].W_O[part.head]
        return change

    def _ablate(self, z: Tensor, ablated: list[AblateHead], queries: Queries | None) -> Tensor:
        for part in ablated:
            z[:, :, part.head] = self._replaced(part, queries)
        return z

    def _replaced(self, part: AblateHead, queries: Queries | None) -> Tensor:
        z = self.replacement(part)
        return z if queries is None else queries.take(z.expand(len(self.scored), *z.shape[1:]))


def agreeing_weights(
    model: Model,
    clean: Mapping[str, Tensor],
    predictions: Float[Tensor, "batch pos token"],
    *,
    regression: bool = False,
) -> LeanWeights | None:
    """Return the weights for the lean pass if it gives the model's own predictions and z's; None if it does not.

    Tried on the first sequences: a model that computes with anything that the lean pass does not know, or in
    another way, differs, and is run with hooks instead.

    Args:
        model: with a checkpoint's weights.
        clean: activations of its clean pass: the first residual stream, those of rotary positions, and any z.
        predictions: of the clean pass, log-probabilities (nats) or the outputs of a regression.
        regression: whether predictions are outputs.
    """
    weights = lean_weights(model, clean)
    if weights is None:
        return None
    with torch.inference_mode():
        expected = predictions[:TRIED]
        x = clean["blocks.0.hook_resid_pre"][:TRIED]
        try:
            for number, layer in enumerate(weights.layers):
                z = attend(weights, number, x, None, None)
                recorded = clean.get(f"blocks.{number}.attn.hook_z", z)[:TRIED]
                if not _agree(z, recorded):
                    return None
                x = behind(weights, number, x, write(layer, z))
            logits = weights.unembedded(x)
        except RuntimeError:  # shapes that do not fit
            return None
        found = logits if regression else logits.log_softmax(-1)
    return weights if _agree(found, expected) else None


def _agree(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool((one - other).abs().max() <= SAME * other.abs().max())


def behind(weights: LeanWeights, number: int, x: Tensor, written: Tensor) -> Tensor:
    """Return the residual stream behind a layer, from the one before it and what its attention wrote."""
    layer = weights.layers[number]
    middle = x + (written if layer.ln1_post is None else layer.ln1_post(written))
    if layer.mlp is None or layer.ln2 is None:
        return middle
    hidden = layer.mlp(layer.ln2(x if weights.parallel else middle))
    return middle + (hidden if layer.ln2_post is None else layer.ln2_post(hidden))


def write(layer: Layer, z: Float[Tensor, "batch query head d_head"]) -> Float[Tensor, "batch query model"]:
    """Return what attention writes into the residual stream."""
    return F.linear(z.flatten(2), layer.W_O.flatten(0, 1).T, layer.bias_o)


def attend(
    weights: LeanWeights, number: int, x: Float[Tensor, "batch pos model"], queries: Queries | None, context: int | None
) -> Float[Tensor, "batch query head d_head"]:
    """Return every head's z at the queries (None for all positions), each attending to its last `context` keys."""
    layer, length = weights.layers[number], x.shape[1]
    q, k, v = _projected(weights, layer, layer.ln1(x), queries)
    if layer.rotary is not None:
        cos, sin = (table[:length] for table in layer.rotary)
        k = _turned(k, cos, sin, weights.adjacent)
        if queries is not None:
            cos, sin = (table[queries.index][:, None] for table in (cos, sin))
        q = _turned(q, cos, sin, weights.adjacent)
    if weights.n_kv_heads < weights.n_heads:
        k, v = (each.repeat_interleave(weights.n_heads // weights.n_kv_heads, 1) for each in (k, v))
    context = min((each for each in (context, layer.window) if each is not None), default=None)
    if queries is None and context is None and weights.score_cap is None and length > SHORT:
        z = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=layer.scale)
    else:
        seen = _seen(length, queries, context, x.device)
        if length > SHORT and weights.score_cap is None:
            z = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=layer.scale)
        else:
            scores = capped(q @ k.mT * layer.scale, weights.score_cap)
            z = scores.masked_fill(~seen, -math.inf).softmax(-1) @ v
    return rearrange(z, "batch head query d_head -> batch query head d_head")


def _projected(weights: LeanWeights, layer: Layer, x: Tensor, queries: Queries | None) -> tuple[Tensor, Tensor, Tensor]:
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
    k, v = rest.chunk(2, -1)
    return tuple(rearrange(each, "b p (head d) -> b head p d", d=weights.d_head) for each in (q, k, v))  # type: ignore[return-value]


def _seen(
    length: int, queries: Queries | None, context: int | None, device: torch.device
) -> Bool[Tensor, "query key"] | Bool[Tensor, "batch 1 query key"]:
    """Return the keys that each query attends to."""
    key = torch.arange(length, device=device)
    query = key[:, None] if queries is None else queries.index[:, None, :, None]
    seen = key <= query
    return seen if context is None else seen & (key > query - context)


def _turned(x: Tensor, cos: Tensor, sin: Tensor, adjacent: bool) -> Tensor:
    """Turn pairs of the first dimensions by their position's angles."""
    turned, rest = x.tensor_split([cos.shape[-1]], -1)
    if adjacent:
        one, two = turned[..., ::2], turned[..., 1::2]
        across = torch.stack([-two, one], -1).flatten(-2)
    else:
        one, two = turned.chunk(2, -1)
        across = torch.cat([-two, one], -1)
    return torch.cat([turned * cos + across * sin, rest], -1)
