"""The change of the loss when a head's output is replaced, estimated from gradients, of the lean pass if it agrees."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from stagewise.attention import z_hook
from stagewise.intervention import AblateHead, AttributeHeads
from stagewise.loss import ScoredPredictions
from stagewise.models._edits import Replacement, by_head
from stagewise.models._lean_attention import attend, project
from stagewise.models._lean_reading import rotary_hooks
from stagewise.models._lean_weights import LeanWeights
from stagewise.models._model import Model
from stagewise.models._numbers import Dtype, products_in, widened
from stagewise.models._scored_positions import ScoredPositions

INPUT = "blocks.0.hook_resid_pre"
"""The residual stream in front of the first layer."""

_ByLayer = list[Float[Tensor, "batch pos head d_head"]]
"""The gradient of the summed loss of all sequences with respect to z, one a layer."""


def hooks_for_attribution(model: Model) -> set[str]:
    """Name the activations of the clean pass that an attribution reads."""
    return {INPUT, *map(z_hook, range(model.cfg.n_layers))} | rotary_hooks(model)


def attributed(
    request: AttributeHeads,
    clean: Mapping[str, Tensor],
    mean_input: Float[Tensor, "1 pos model"],
    replacement: Replacement,
    gradients: Callable[[Float[Tensor, "batch pos model"] | None], _ByLayer],
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
    tokens: Int[Tensor, "batch pos"] | Float[Tensor, "batch pos feature"],
    clean: ScoredPredictions,
    scored: Tensor,
    x: Float[Tensor, "batch pos model"] | None = None,
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
        total = clean.loss(widened(logits[scored])).sum()
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
    inputs: Float[Tensor, "batch pos model"],
    clean: ScoredPredictions,
    scored: Tensor,
    x: Float[Tensor, "batch pos model"] | None = None,
    *,
    dtype: Dtype = "float32",
) -> _ByLayer:
    """Return the gradients of the lean pass: the last layer at the scored positions alone."""
    queries, zs = ScoredPositions.of(scored), list[Tensor]()

    def attention(number: int, x: Tensor) -> tuple[Tensor, Tensor]:
        shown = queries if number == len(weights.layers) - 1 else None
        z = attend(weights.layers[number], project(weights, number, x, shown), shown, None)
        zs.append(z if z.requires_grad else z.requires_grad_())
        return x if shown is None else shown.take(x), weights.layers[number].write(z)

    with without_gradients_of_weights(model), torch.enable_grad():
        with products_in(dtype, inputs.device):
            last = weights.through_layers(inputs.clone() if x is None else x, attention)
            logits = weights.unembedded(queries.flat(last))
        total = clean.loss(logits).sum()
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
