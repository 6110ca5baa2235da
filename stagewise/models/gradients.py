"""The change of the loss when a head's output is replaced, estimated from gradients, of the lean pass if it agrees.

Along an edge one head reads another one's mean in place of what it wrote. Every head of a layer reads its own copy of
the residual stream, three of them: for its queries, its keys and its values. In the clean pass they are equal. An
edge's exact effect is that of a change of one of them on the loss; the effects of all are estimated from their
gradients, in one backward pass.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise.attention import z_hook
from stagewise.intervention import AblateHead, AttributeEdges, AttributeHeads
from stagewise.models._edits import Replacement, by_head
from stagewise.models._lean_reading import not_covered, rotary_hooks
from stagewise.models._lean_weights import Layer, LeanWeights
from stagewise.models._model import Model, Residual, Tokens
from stagewise.models._numbers import Dtype, products_in, widened
from stagewise.models.lean import Heads, ScoredPositions, attend, project, turned_by

INPUT = "blocks.0.hook_resid_pre"
"""The residual stream in front of the first layer."""

_ByLayer = list[Float[Tensor, "batch pos head d_head"]]
"""The gradient of the summed loss of all sequences with respect to z, one a layer."""

_Copies = Float[Tensor, "batch copy head pos model"]
"""Inputs of the heads of a layer: copy 0 for queries, 1 for keys, 2 for values."""

_Patch = tuple[int, int, int, Residual]
"""A layer, a copy and a head, and what is added to what the head reads there."""

_Edges = Float[Tensor, "batch layer head source_layer source copy"]
"""A number an edge; zero where the source is not in an earlier layer."""


Objective = Callable[[Float[Tensor, "scored token"]], Float[Tensor, " batch"]]
"""The number of each sequence that gradients are of, from its scored logits: its loss, or a logit difference."""


def hooks_for_attribution(model: Model) -> set[str]:
    """Name the activations of the clean pass that an attribution reads."""
    return {INPUT, *map(z_hook, range(model.cfg.n_layers))} | rotary_hooks(model)


def attributed(
    request: AttributeHeads,
    clean: Mapping[str, Tensor],
    mean_input: Float[Tensor, "1 pos model"],
    replacement: Replacement,
    gradients: Callable[[Residual | None], _ByLayer],
) -> Float[Tensor, "batch layer head"]:
    """Return the estimated change of each sequence's loss, nats, for every head."""
    x, kind = clean[INPUT].clone(), request.kind  # no tensor of inference mode: gradients flow past it
    replaced = mean_input if kind == "mean" else torch.zeros_like(mean_input)
    # A path from what replaces the input to the input itself: the mean gradient along it estimates the whole change.
    inputs = [replaced + step / request.steps * (x - replaced) for step in range(1, request.steps)]
    every = [gradients(each) for each in (*inputs, None)]
    estimates = []
    for layer, of_layer in enumerate(zip(*every, strict=True)):
        gradient, z = torch.stack(of_layer).mean(0), clean[z_hook(layer)]
        for head in range(z.shape[2]):
            change = replacement(AblateHead(layer, head, kind)) - z[:, :, head]
            estimates.append((change * gradient[:, :, head]).sum((1, 2)))
    return rearrange(torch.stack(estimates), "(layer head) batch -> batch layer head", layer=len(every[0]))


def by_model(
    model: Model,
    tokens: Tokens,
    objective: Objective,
    scored: Tensor,
    x: Residual | None = None,
    *,
    dtype: Dtype = "float32",
) -> _ByLayer:
    """Return the gradients of the model itself, with another input of its first layer where `x` is given."""
    recorded: dict[str, Tensor] = {}

    def record(name: str, z: Tensor, hook: Any) -> Tensor:
        recorded[name] = z if z.requires_grad else z.detach().clone().requires_grad_()
        return recorded[name]

    names = [z_hook(layer) for layer in range(model.cfg.n_layers)]
    hooks: list[Any] = [(name, partial(record, name)) for name in names]
    if x is not None:
        hooks.append((INPUT, lambda activation, hook: x))
    with without_gradients_of_weights(model), torch.enable_grad():
        with products_in(dtype, tokens.device):
            logits = model.run_with_hooks(tokens, fwd_hooks=hooks)
        total = objective(widened(logits[scored])).sum()
    found = torch.autograd.grad(total, [recorded[name] for name in names], allow_unused=True)
    if dead := [name for name, gradient in zip(names, found, strict=True) if gradient is None]:
        raise ValueError(
            f"the loss does not depend on {dead[0]} as this model shows it, so that its heads cannot be attributed "
            "from gradients: leave HeadAttribution out for this model"
        )
    return [by_head(widened(gradient), model.cfg.n_heads) for gradient in found if gradient is not None]


def by_lean_pass(
    model: Model,
    weights: LeanWeights,
    inputs: Residual,
    objective: Objective,
    scored: Tensor,
    x: Residual | None = None,
    *,
    dtype: Dtype = "float32",
) -> _ByLayer:
    """Return the gradients of the lean pass: the last layer at the scored positions alone."""
    queries, zs = ScoredPositions.of(scored), list[Tensor]()

    def attention(number: int, x: Tensor) -> tuple[Tensor, Tensor]:
        layer, shown = weights.layers[number], queries if number == len(weights.layers) - 1 else None
        z = attend(layer, project(weights, number, x, shown), shown, None)
        zs.append(z if z.requires_grad else z.requires_grad_())
        here = x if shown is None else shown.take(x)
        return here, layer.behind_attention(here, layer.write(z))

    with without_gradients_of_weights(model), torch.enable_grad():
        with products_in(dtype, inputs.device):
            last = weights.through_layers(inputs.clone() if x is None else x, attention)
            logits = weights.unembedded(queries.flat(last))
        total = objective(logits).sum()
    # The last layer's gradient is of its scored positions: those that fill up ragged rows have none, and add zero.
    *below, at_queries = map(widened, torch.autograd.grad(total, zs))
    rows = torch.arange(len(scored), device=scored.device)[:, None]
    everywhere = at_queries.new_zeros(*scored.shape, *at_queries.shape[2:])
    return [*below, everywhere.index_put_((rows, queries.index), at_queries, accumulate=True)]


@contextlib.contextmanager
def without_gradients_of_weights(model: Model) -> Iterator[None]:
    """Leave the gradients of the weights out, which nobody reads, and with them the activations kept for them."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)


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
    start: Float[Tensor, "#batch pos model"],
    replaced: Callable[[int, int], Float[Tensor, "#batch pos d_head"]],
    objective: Objective,
    scored: Bool[Tensor, "batch pos"],
    dtype: Dtype = "float32",
) -> _Edges:
    """Return what each sequence's loss, or logit difference, changes by (nats) where one head reads another's
    `replaced` z: from gradients on the way from `start` to the input, or patched one by one.
    """
    x = activations[INPUT].clone()
    n_layers, n_heads = len(weights.layers), len(weights.layers[0].W_O)
    changes = {
        (layer, head): (replaced(layer, head) - activations[z_hook(layer)][:, :, head])
        @ weights.layers[layer].W_O[head]
        for layer in range(n_layers - 1)
        for head in range(n_heads)
    }
    found = x.new_zeros(len(x), n_layers, n_heads, n_layers, n_heads, 3)

    def loss(x: Tensor, patch: _Patch | None = None, copies: list[Tensor] | None = None) -> Tensor:
        with products_in(dtype, x.device):
            logits = weights.unembedded(_last(weights, x, patch, copies)[scored])
        return objective(logits)

    def gradients(x: Tensor) -> list[_Copies]:
        copies: list[Tensor] = []
        with torch.enable_grad():
            total = loss(x, copies=copies).sum()
        return [widened(gradient) for gradient in torch.autograd.grad(total, copies)]

    with without_gradients_of_weights(model):
        if request.exact:
            _patch_each(found, changes, loss, x)
            return found
        inputs = [start + step / request.steps * (x - start) for step in range(1, request.steps)]
        every = [gradients(each) for each in (*inputs, x)]
    # To first order: a source's change, times the gradient of what each later head reads it by.
    for layer in range(1, n_layers):
        gradient = torch.stack([of[layer] for of in every]).mean(0)
        for (source_layer, source), change in changes.items():
            if source_layer < layer:
                found[:, layer, :, source_layer, source] = torch.einsum("bchpm,bpm->bhc", gradient, change)
    return found


def _patch_each(
    found: _Edges, changes: Mapping[tuple[int, int], Residual], loss: Callable[..., Tensor], x: Residual
) -> None:
    """Put a source's mean into one copy of one head after the other, and write what it does to the loss."""
    with torch.no_grad():
        clean = loss(x)
        for (source_layer, source), change in changes.items():
            for layer, head, copy in itertools.product(*map(range, (found.shape[1], found.shape[2], 3))):
                if layer > source_layer:
                    patched = loss(x, (layer, copy, head, change))
                    found[:, layer, head, source_layer, source, copy] = patched - clean


def _last(weights: LeanWeights, x: Residual, patch: _Patch | None, copies: list[Tensor] | None = None) -> Residual:
    """Return the last layer's output, from the residual stream in front of the first layer."""

    def attention(number: int, x: Tensor) -> tuple[Tensor, Tensor]:
        # One stream for every head and use: equal until one of them is patched, or asked for a gradient of its own.
        layer = weights.layers[number]
        read = x[:, None, None].expand(-1, 3, len(layer.W_O), -1, -1)
        if patch is not None and patch[0] == number:
            _, copy, head, change = patch
            read = read.clone()
            read[:, copy, head] += change
        if copies is not None:
            read = read.clone() if read.requires_grad else read.clone().requires_grad_()
            copies.append(read)
        return x, layer.behind_attention(x, layer.write(attend(layer, _heads(weights, layer, read), None, None)))

    return weights.through_layers(x, attention)


def _heads(weights: LeanWeights, layer: Layer, read: _Copies) -> Heads:
    normed, heads = layer.ln1(read), []
    for copy, part in enumerate((layer.q, layer.k, layer.v)):
        # Keys and values that several query heads share are given to each of them.
        of_heads = part.weight.view(-1, part.d_head, part.weight.shape[1]), part.bias.view(-1, part.d_head)
        weight, bias = (columns.repeat_interleave(read.shape[2] // len(columns), 0) for columns in of_heads)
        heads.append(torch.einsum("bhpm,hdm->bhpd", normed[:, copy], weight) + bias[:, None])
    q, k, v = heads
    if layer.rotary is not None:
        cos, sin = (table[: read.shape[3]] for table in layer.rotary)
        q, k = (turned_by(each, cos, sin, weights.adjacent) for each in (q, k))
    return Heads(q, k, v, layer.scale, weights.score_cap)
