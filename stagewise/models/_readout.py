"""Readout of the residual stream: the final norm and unembedding, and each head's output, for any model kind."""

import dataclasses
import functools
from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor

from stagewise.attention import z_hook
from stagewise.models._edits import mlp_hook
from stagewise.models._lean_reading import lean_weights
from stagewise.models._lean_weights import LeanWeights
from stagewise.models._model import Model
from stagewise.models._numbers import same
from stagewise.models._passes import clean_pass, has_mlp
from stagewise.models._wrapping import name_of


@dataclasses.dataclass(frozen=True, eq=False)
class Readout:
    """The way from the residual stream to the predictions; `is_sum` says that it is the sum of what layers write,
    `adds_heads` that attention adds what W_O makes of z.
    """

    weights: LeanWeights
    is_sum: bool = True
    adds_heads: Callable[[], bool] = lambda: True

    def logits(self, residual: Float[Tensor, "*axes model"]) -> Float[Tensor, "*axes token"]:
        """Return the logits (or outputs) of residual vectors, as if the last layer had left them: the logit lens."""
        return self.weights.unembedded(residual)

    def direct(
        self, part: Float[Tensor, "*axes model"], residual: Float[Tensor, "*axes model"], targets: Int[Tensor, "*axes"]
    ) -> Float[Tensor, "*axes"]:
        """Return a part's contribution to a target's logit over the mean logit, by the whole residual's norm."""
        if not self.is_sum:
            raise ValueError(
                "hooks that stay with this model change its residual stream, as a norm behind every layer does: what a "
                "part adds to a logit is not defined. Leave direct attribution out"
            )
        W_U = self.weights.W_U
        directions = W_U.T[targets] - W_U.mean(-1)
        return (self.weights.ln_final.of_part(part, residual) * directions).sum(-1)

    def written(self, layer: int, z: Float[Tensor, "*axes head d_head"]) -> Float[Tensor, "*axes head model"]:
        """Return each head's output to the residual stream in a layer, without the bias of attention."""
        if not self.adds_heads():
            raise ValueError(
                "this model multiplies or normalises what attention writes in a way that is not known here, so that "
                "what a head adds to a logit cannot be read: leave DirectLogitAttribution out"
            )
        of = self.weights.layers[layer]
        each = torch.einsum("...hd,hdm->...hm", z, of.W_O)
        if of.ln1_post is None:
            return each
        whole = each.sum(-2, keepdim=True) + of.bias_o
        return of.ln1_post.of_part(each, whole.expand(each.shape))


def readout(
    model: Model,
    clean: Mapping[str, Tensor],
    predictions: Float[Tensor, "batch pos token"],
    *,
    regression: bool = False,
    tokens: Int[Tensor, "batch pos"] | Float[Tensor, "batch pos feature"] | None = None,
) -> Readout:
    """Return a model's readout, checked by its effect: behind the last layer it gives the model's own predictions."""
    weights = lean_weights(model, clean, mlps=False)
    advice = "leave the probes that read logits from the residual stream, as LogitLens, out"
    if weights is None:
        raise ValueError(f"the final norm and unembedding of {name_of(model)} are of no known kind: {advice}")
    changed = any(point.fwd_hooks for name, point in model.hook_dict.items() if ".hook_resid_" in name)
    found = Readout(weights, is_sum=not changed)
    if tokens is not None and not changed:
        adds_heads = functools.partial(_adds_heads, model, weights, tokens[:1])
        found = dataclasses.replace(found, adds_heads=functools.cache(adds_heads))
    with torch.inference_mode():
        logits = found.logits(clean[last_residual(len(weights.layers))][:1])
        own = logits if regression else logits.log_softmax(-1)
        if not same(own, predictions[:1]):
            raise ValueError(
                f"the final norm and unembedding of {name_of(model)}, as they are read here, do not give its own "
                f"predictions: {advice}"
            )
    return found


def _adds_heads(model: Model, weights: LeanWeights, tokens: Tensor) -> bool:
    """Whether the residual stream behind attention, without what the MLP adds, is what was read makes it."""
    behind = [_behind_attention(model, number) for number in range(len(weights.layers))]
    hooks = {f"blocks.{n}.{hook}" for n in range(len(behind)) for hook in ("hook_resid_pre", "attn.hook_z")}
    _, clean = clean_pass(model, tokens, hooks.union(*behind), regression=True)
    for number, (stream, *added) in enumerate(behind):
        x, z = clean[f"blocks.{number}.hook_resid_pre"], clean[z_hook(number)]
        with torch.inference_mode():
            computed = weights.layers[number].behind_attention(x, weights.layers[number].write(z))
            shown = clean[stream] - sum(clean[name] for name in added)
        if not same(computed, shown, of=clean[stream]):
            return False
    return True


def _behind_attention(model: Model, layer: int) -> tuple[str, ...]:
    """Name the residual stream behind a layer's attention; where its MLP is beside it, that behind both, and it."""
    if (between := f"blocks.{layer}.hook_resid_mid") in model.hook_dict:
        return (between,)
    return f"blocks.{layer}.hook_resid_post", *([mlp_hook(layer)] if has_mlp(model, layer) else [])


def last_residual(n_layers: int) -> str:
    """Name the residual stream behind the last layer."""
    return f"blocks.{n_layers - 1}.hook_resid_post"
