"""Edges between heads: how the loss changes when one head reads another one's mean in place of what it wrote.

Every head of a layer reads its own copy of the residual stream, three of them: for its queries, its keys and its
values. In the clean pass they are equal. An edge's exact effect is that of a change of one of them on the loss; the
effects of all are estimated from their gradients, in one backward pass.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise.attention import z_hook
from stagewise.intervention import AblateHead, AttributeEdges, PatchEdge
from stagewise.loss import ScoredPredictions
from stagewise.models._edits import Replacement
from stagewise.models._gradients import INPUT, without_gradients_of_weights
from stagewise.models._lean_attention import Heads, attend, turned_by
from stagewise.models._lean_reading import not_covered
from stagewise.models._lean_weights import Layer, LeanWeights
from stagewise.models._model import Model
from stagewise.models._numbers import Dtype, products_in, widened

_Copies = Float[Tensor, "batch copy head pos model"]
"""Inputs of the heads of a layer: copy 0 for queries, 1 for keys, 2 for values."""

_COPIES = "QKV"
"""The reader of each copy."""

_Patches = Mapping[int, Sequence[tuple[int, int, Float[Tensor, "batch pos model"]]]]
"""By layer: a copy and a head, and what is added to what the head reads there."""

_Edges = Float[Tensor, "batch layer head source_layer source copy"]
"""A number an edge; zero where the source is not in an earlier layer."""


def check(weights: LeanWeights | None, model: Model) -> LeanWeights:
    """Refuse a model whose heads cannot be given inputs of their own here."""
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
) -> _Edges:
    """Return every edge's worth to each sequence's loss, nats: from gradients, or patched one by one."""
    x = activations[INPUT].clone()
    n_layers, n_heads = len(weights.layers), weights.n_heads
    changes = {
        (layer, head): (replacement(AblateHead(layer, head, "mean")) - activations[z_hook(layer)][:, :, head])
        @ weights.layers[layer].W_O[head]
        for layer in range(n_layers - 1)
        for head in range(n_heads)
    }
    found = x.new_zeros(len(x), n_layers, n_heads, n_layers, n_heads, 3)

    def loss(x: Tensor, patches: _Patches = MappingProxyType({}), copies: list[Tensor] | None = None) -> Tensor:
        with products_in(dtype, x.device):
            logits = weights.unembedded(_last(weights, x, 0, patches, copies)[scored])
        return predictions.loss(logits)

    def gradients(x: Tensor) -> list[_Copies]:
        copies: list[Tensor] = []
        with torch.enable_grad():
            total = loss(x, copies=copies).sum()
        return [widened(gradient) for gradient in torch.autograd.grad(total, copies)]

    with without_gradients_of_weights(model):
        if request.exact:
            _patch_each(found, changes, loss, x)
            return found
        inputs = [mean_input + step / request.steps * (x - mean_input) for step in range(1, request.steps)]
        every = [gradients(each) for each in (*inputs, x)]
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
    """Return the last residual stream at the scored positions, where heads read others as ablations leave them."""
    start, patches = min(edge.layer for edge in edit), dict[int, list[tuple[int, int, Tensor]]]()
    for edge in edit:
        source = edge.source
        z = activations[z_hook(source.layer)][:, :, source.head]
        change = (replacement(source) - z) @ weights.layers[source.layer].W_O[source.head]
        patches.setdefault(edge.layer, []).append((_COPIES.index(edge.by), edge.head, change))
    return _last(weights, activations[f"blocks.{start}.hook_resid_pre"], start, patches)[scored]


def _patch_each(
    found: _Edges,
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
                        patch = {layer: [(copy, head, change)]}
                        found[:, layer, head, source_layer, source, copy] = loss(x, patch) - clean


def _last(
    weights: LeanWeights,
    x: Float[Tensor, "batch pos model"],
    start: int,
    patches: _Patches,
    copies: list[Tensor] | None = None,
) -> Float[Tensor, "batch pos model"]:
    """Return the last layer's output, from the residual stream in front of a layer."""

    def attention(number: int, x: Tensor) -> tuple[Tensor, Tensor]:
        # One stream for every head and use: equal until one of them is patched, or asked for a gradient of its own.
        layer, read = weights.layers[number], x[:, None, None].expand(-1, 3, weights.n_heads, -1, -1)
        if number in patches:
            read = read.clone()
        for copy, head, change in patches.get(number, ()):
            read[:, copy, head] += change
        if copies is not None:
            read = read.clone() if read.requires_grad else read.clone().requires_grad_()
            copies.append(read)
        return x, layer.write(attend(layer, _heads(weights, layer, read), None, None))

    return weights.through_layers(x, attention, start=start)


def _heads(weights: LeanWeights, layer: Layer, read: _Copies) -> Heads:
    """Return each head's queries, keys and values, from its own copies."""
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
