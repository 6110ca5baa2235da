"""Edges between heads: how the loss changes when one head reads another one's mean in place of what it wrote.

Every head of a layer reads its own copy of the residual stream, three of them: for its queries, its keys and its
values. In the clean pass they are equal. What a change of one of them does to the loss is an edge's effect, exactly;
what all of them do is estimated from their gradients, in one backward pass.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise.attention import z_hook
from stagewise.intervention import AblateHead, AttributeEdges, PatchEdge
from stagewise.loss import ScoredPredictions
from stagewise.models.edits import Replacement
from stagewise.models.gradients import INPUT, without_gradients_of_weights
from stagewise.models.lean import behind, write
from stagewise.models.lean_attention import Heads, attend, turned_by
from stagewise.models.lean_reading import not_covered
from stagewise.models.lean_weights import Layer, LeanWeights
from stagewise.models.model import Model
from stagewise.models.precision import Dtype, products_in, widened

_Copies = Float[Tensor, "batch copy head pos model"]
"""What the heads of a layer read: copy 0 for queries, 1 for keys, 2 for values."""

_COPIES = "QKV"
"""What each copy is read by."""

_Moved = tuple[int, int, Float[Tensor, "batch pos model"]]
"""A copy and a head, and what is added to what the head reads there."""

Edges = Float[Tensor, "batch layer head source_layer source copy"]
"""A number an edge; zero where the source is not in an earlier layer."""


def check(weights: LeanWeights | None, model: Model) -> LeanWeights:
    """Refuse a model whose heads cannot be given inputs of their own here.

    Args:
        weights: of the lean pass, None where it does not give the model's numbers.
        model: whose weights they are.

    Raises:
        ValueError: it is no such model; the message names what it has.
    """
    others = not_covered(model) or ["parts of its own, such as experts, norms inside an MLP or hooks that stay with it"]
    if weights is not None:
        others = ["shortformer positions"] if weights.shortformer is not None else []
        others += ["norms behind attention"] if any(layer.ln1_post for layer in weights.layers) else []
    if weights is None or others:
        raise ValueError(
            "edges between heads are computed anew from the weights, without what this model computes with: "
            f"{', '.join(others)}. Leave EdgeAttribution out for this model"
        )
    return weights


def edges(
    request: AttributeEdges,
    model: Model,
    weights: LeanWeights,
    activations: Mapping[str, Tensor],
    mean_input: Float[Tensor, "1 pos model"],
    replacement: Replacement,
    predictions: ScoredPredictions,
    scored: Bool[Tensor, "batch pos"],
    dtype: Dtype = "float32",
) -> Edges:
    """Return the change of each sequence's loss by every edge, nats: estimated from gradients, or patched one by one.

    Args:
        request: which.
        model: that the weights were read from.
        weights: of the model, as `check` returns them.
        activations: of the clean pass: the first layer's input, and z.
        mean_input: of the first layer, over the batch.
        replacement: what a head's z is replaced by.
        predictions: of the clean pass.
        scored: which predictions count.
        dtype: of the products.
    """
    x = activations[INPUT].clone()
    n_layers, n_heads = len(weights.layers), weights.n_heads
    changes = {
        (layer, head): (replacement(AblateHead(layer, head, "mean")) - activations[z_hook(layer)][:, :, head])
        @ weights.layers[layer].W_O[head]
        for layer in range(n_layers - 1)
        for head in range(n_heads)
    }
    found = x.new_zeros(len(x), n_layers, n_heads, n_layers, n_heads, 3)
    with without_gradients_of_weights(model):
        if request.exact:
            _patch(found, changes, partial(_loss, weights, predictions=predictions, scored=scored, dtype=dtype), x)
            return found
        inputs = [mean_input + step / request.steps * (x - mean_input) for step in range(1, request.steps)]
        every = [_gradients(weights, each, predictions, scored, dtype) for each in (*inputs, x)]
    # To first order: a source's change, times the gradient of what each later head reads it by.
    for layer in range(1, n_layers):
        gradient = torch.stack([of[layer] for of in every]).mean(0)
        for (source_layer, source), change in changes.items():
            if source_layer < layer:
                found[:, layer, :, source_layer, source] = torch.einsum("bchpm,bpm->bhc", gradient, change)
    return found


def patched(
    weights: LeanWeights,
    activations: Mapping[str, Tensor],
    replacement: Replacement,
    edit: Sequence[PatchEdge],
    scored: Bool[Tensor, "batch pos"],
) -> Float[Tensor, "scored model"]:
    """Return what comes out of the last layer at the scored positions where heads read others as ablations leave them.

    Args:
        weights: of the model, as `check` returns them, not folded.
        activations: of the clean pass: the residual stream in front of the first layer that reads, and z.
        replacement: what a head's z is replaced by.
        edit: the edges.
        scored: which predictions count.
    """
    start, moved = min(edge.layer for edge in edit), dict[int, list[_Moved]]()
    for edge in edit:
        source = edge.source
        z = activations[z_hook(source.layer)][:, :, source.head]
        change = (replacement(source) - z) @ weights.layers[source.layer].W_O[source.head]
        moved.setdefault(edge.layer, []).append((_COPIES.index(edge.by), edge.head, change))
    return _last(weights, activations[f"blocks.{start}.hook_resid_pre"], start, moved)[scored]


def _patch(
    found: Edges,
    changes: Mapping[tuple[int, int], Float[Tensor, "batch pos model"]],
    loss: Callable[..., Float[Tensor, " batch"]],
    x: Float[Tensor, "batch pos model"],
) -> None:
    """Put a source's mean into one copy of one head after the other, and write what it does to the loss."""
    with torch.no_grad():
        clean = loss(x)
        _, n_layers, n_heads = found.shape[:3]
        for (source_layer, source), change in changes.items():
            for layer in range(source_layer + 1, n_layers):
                for head in range(n_heads):
                    for copy in range(3):
                        moved = {layer: [(copy, head, change)]}
                        found[:, layer, head, source_layer, source, copy] = loss(x, moved=moved) - clean


def _gradients(
    weights: LeanWeights,
    x: Float[Tensor, "batch pos model"],
    predictions: ScoredPredictions,
    scored: Tensor,
    dtype: Dtype,
) -> list[_Copies]:
    """Return the gradients of the loss with respect to what every head reads, a layer each."""
    copies: list[Tensor] = []
    with torch.enable_grad():
        total = _loss(weights, x, predictions, scored, copies=copies, dtype=dtype).sum()
    return [widened(gradient) for gradient in torch.autograd.grad(total, copies)]


def _loss(
    weights: LeanWeights,
    x: Float[Tensor, "batch pos model"],
    predictions: ScoredPredictions,
    scored: Bool[Tensor, "batch pos"],
    *,
    moved: Mapping[int, Sequence[_Moved]] | None = None,
    copies: list[Tensor] | None = None,
    dtype: Dtype,
) -> Float[Tensor, " batch"]:
    """Return each sequence's loss, with copies that are moved, or recorded with gradients."""
    with products_in(dtype, x.device):
        logits = weights.unembedded(_last(weights, x, 0, moved or {}, copies)[scored])
    return predictions.loss(logits)


def _last(
    weights: LeanWeights,
    x: Float[Tensor, "batch pos model"],
    start: int,
    moved: Mapping[int, Sequence[_Moved]],
    copies: list[Tensor] | None = None,
) -> Float[Tensor, "batch pos model"]:
    """Return what comes out of the last layer, from the residual stream in front of a layer."""
    for number, layer in list(enumerate(weights.layers))[start:]:
        # One stream for every head and use: equal until one of them is moved, or asked for a gradient of its own.
        read = x[:, None, None].expand(-1, 3, weights.n_heads, -1, -1)
        if number in moved:
            read = read.clone()
        for copy, head, change in moved.get(number, ()):
            read[:, copy, head] += change
        if copies is not None:
            read = read.clone() if read.requires_grad else read.clone().requires_grad_()
            copies.append(read)
        z = attend(layer, _heads(weights, layer, read), None, None)
        x = behind(weights, number, x, write(layer, z))
    return x


def _heads(weights: LeanWeights, layer: Layer, read: _Copies) -> Heads:
    """Return what each head attends with, from its own copies."""
    normed, shared = layer.ln1(read), weights.n_heads // weights.n_kv_heads
    sizes = [weights.n_heads * weights.d_head, *2 * [weights.n_kv_heads * weights.d_head]]
    pairs = zip(torch.split(layer.W_QKV, sizes, -1), torch.split(layer.bias_qkv, sizes), strict=True)
    q, k, v = (
        torch.einsum("bhpm,mhd->bhpd", normed[:, copy], _each(weight, weights.d_head, shared if copy else 1))
        + _each(bias, weights.d_head, shared if copy else 1)[:, None]
        for copy, (weight, bias) in enumerate(pairs)
    )
    if layer.rotary is not None:
        cos, sin = (table[: read.shape[3]] for table in layer.rotary)
        q, k = (turned_by(each, cos, sin, weights.adjacent) for each in (q, k))
    return Heads(q, k, v, layer.scale, weights.score_cap)


def _each(columns: Tensor, d_head: int, shared: int) -> Tensor:
    """Give every query head its columns, those that several share too: [... head d_head]."""
    return rearrange(columns, "... (head d) -> ... head d", d=d_head).repeat_interleave(shared, -2)
