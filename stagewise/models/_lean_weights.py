"""A model's parameters as passes of this library multiply with them, and the way through its layers."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise.models._numbers import widened

TRAINED_ACTIVATIONS = ("relu", "gelu", "silu")
"""Those of the training pass; models with others train by their hooks."""

_Attention = Callable[[int, Tensor], tuple[Tensor, Tensor]]
"""From a layer's number and the residual stream in front of it to what attention adds to, and to their sum."""

Read = Callable[[Tensor, Tensor], Tensor]
"""From a weight [out model] and a bias to what the input becomes under them."""


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if torch.is_grad_enabled():
        return F.gelu(x, approximate=approximate)
    activated: Tensor = torch.ops.aten.gelu_(x, approximate=approximate)
    return activated


ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda x: F.relu(x, inplace=not torch.is_grad_enabled()),
    "silu": lambda x: F.silu(x, inplace=not torch.is_grad_enabled()),
    "gelu": _gelu,
    **dict.fromkeys(["gelu_new", "gelu_fast", "gelu_pytorch_tanh"], partial(_gelu, approximate="tanh")),
}
"""In place where no gradient is asked for: a second tensor of that size is what an activation costs most."""


class Norm(NamedTuple):
    """LayerNorm, RMSNorm or none (`kind` None), with its gain and shift where it has them."""

    kind: str | None
    eps: float
    weight: Tensor | None = None
    bias: Tensor | None = None

    @classmethod
    def of(cls, weights: Mapping[str, Tensor], name: str, kind: str | None, eps: float) -> "Norm":
        """Take a norm's parameters by their names in a HookedTransformer."""
        return cls(kind, eps, weights.get(f"{name}.w"), weights.get(f"{name}.b"))

    def __call__(self, x: Float[Tensor, "*axes model"]) -> Float[Tensor, "*axes model"]:
        if self.kind is None:
            return x
        if self.kind.startswith("RMS"):
            return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)
        return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)

    def of_part(
        self, part: Float[Tensor, "*axes model"], whole: Float[Tensor, "*axes model"]
    ) -> Float[Tensor, "*axes model"]:
        """Return a part of a vector after the norm, with the whole vector's scale, without the norm's shift."""
        if self.kind is None:
            return part
        if self.kind.startswith("RMS"):
            scaled = part * (whole.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        else:
            scale = (whole.var(-1, unbiased=False, keepdim=True) + self.eps).rsqrt()
            scaled = (part - part.mean(-1, keepdim=True)) * scale
        return scaled if self.weight is None else scaled * self.weight


class Projection(NamedTuple):
    """The map from the residual stream to the queries, the keys or the values of a layer's heads."""

    weight: Float[Tensor, "columns model"]
    bias: Float[Tensor, " columns"]
    d_head: int

    @classmethod
    def of(cls, weight: Float[Tensor, "head model d_head"], bias: Float[Tensor, "head d_head"]) -> "Projection":
        """Lay every head's columns one behind another."""
        return cls(weight.transpose(1, 2).flatten(0, 1), bias.flatten(), weight.shape[2])

    def __call__(self, x: Float[Tensor, "batch pos model"]) -> Float[Tensor, "batch head pos d_head"]:
        return self.read(partial(F.linear, x))

    def read(self, read: Read) -> Float[Tensor, "batch head pos d_head"]:
        """Return what every head makes of an input that is known by what it becomes under a weight and a bias."""
        projected = read(self.weight, self.bias)
        return projected.view(*projected.shape[:2], -1, self.d_head).transpose(1, 2)


class Mlp(NamedTuple):
    """A layer's MLP; `W_gate` is None where it has none."""

    act: Callable[[Tensor], Tensor]
    W_in: Float[Tensor, "model mlp"]
    b_in: Float[Tensor, " mlp"]
    W_out: Float[Tensor, "mlp model"]
    b_out: Float[Tensor, " model"]
    W_gate: Float[Tensor, "model mlp"] | None = None

    @classmethod
    def of(cls, weights: Mapping[str, Tensor], act_fn: str, block: str = "") -> "Mlp":
        """Take an MLP's parameters by their names in a HookedTransformer."""
        W_in, b_in, W_out, b_out = (weights[f"{block}mlp.{part}"] for part in ("W_in", "b_in", "W_out", "b_out"))
        return cls(ACTIVATIONS[act_fn], W_in, b_in, W_out, b_out, weights.get(f"{block}mlp.W_gate"))

    def __call__(self, x: Float[Tensor, "*axes model"]) -> Float[Tensor, "*axes model"]:
        # TransformerLens adds b_in behind the gate's product.
        if self.W_gate is None:
            hidden = self.act(F.linear(x, self.W_in.T, self.b_in))
        else:
            hidden = self.act(x @ self.W_gate) * (x @ self.W_in) + self.b_in
        return F.linear(hidden, self.W_out.T, self.b_out)


def capped(x: Tensor, cap: float | None) -> Tensor:
    """Return values squeezed into (-cap, cap), or as they are."""
    return x if cap is None else cap * (x / cap).tanh()


@dataclasses.dataclass(frozen=True, eq=False)
class Layer:
    """A layer's weights; norms that are absent are None, cos and sin are those of rotary positions."""

    ln1: Norm
    q: Projection
    k: Projection
    v: Projection
    W_O: Float[Tensor, "head d_head written"]
    bias_o: Float[Tensor, " written"]
    scale: float
    ln2: Norm | None = None
    mlp: Mlp | None = None
    ln1_post: Norm | None = None
    ln2_post: Norm | None = None
    rotary: tuple[Float[Tensor, "pos turned"], Float[Tensor, "pos turned"]] | None = None
    window: int | None = None
    held: Bool[Tensor, "head query key"] | None = None

    def write(self, z: Float[Tensor, "batch query head d_head"]) -> Float[Tensor, "batch query written"]:
        """Return attention's output to the residual stream."""
        return widened(F.linear(z.flatten(2), self.W_O.flatten(0, 1).T, self.bias_o))

    def behind_attention(
        self, x: Float[Tensor, "*axes sum"], written: Float[Tensor, "*#axes written"]
    ) -> Float[Tensor, "*axes sum"]:
        """Return the residual stream between attention and MLP, from the one in front and what attention wrote."""
        return x + (written if self.ln1_post is None else self.ln1_post(written))

    def added_by_mlp(self, x: Float[Tensor, "*axes model"]) -> Float[Tensor, "*axes model"] | None:
        """Return the MLP's output to the residual stream, from its input; None without an MLP."""
        if self.mlp is None or self.ln2 is None:
            return None
        hidden = widened(self.mlp(self.ln2(x)))
        return hidden if self.ln2_post is None else self.ln2_post(hidden)


@dataclasses.dataclass(frozen=True, eq=False)
class LeanWeights:
    """All that passes read of a model behind its embedding; `shown` names the clean pass's q, k and v of layer 0."""

    layers: Sequence[Layer]
    ln_final: Norm
    W_U: Float[Tensor, "model token"]
    bias_u: Float[Tensor, " token"]
    parallel: bool = False
    score_cap: float | None = None
    logit_cap: float | None = None
    adjacent: bool = False
    shortformer: Float[Tensor, "pos model"] | None = None
    folded: bool = False
    shown: tuple[str, str, str] | None = None

    def fold(self) -> "LeanWeights":
        """Return the same function with the unembedding in the last layer, where only sums follow; else itself."""
        *below, last = self.layers
        between = (self.ln_final.kind, self.logit_cap, last.mlp, last.ln1_post)
        if any(part is not None for part in between) or self.W_U.shape[1] > self.W_U.shape[0]:
            return self
        # (z W_O + b_O) W_U = z (W_O W_U) + b_O W_U: the last product is taken once, not at every edit.
        last = dataclasses.replace(last, W_O=last.W_O @ self.W_U, bias_o=last.bias_o @ self.W_U)
        return dataclasses.replace(self, layers=[*below, last], folded=True)

    def through_layers(
        self,
        x: Float[Tensor, "batch pos model"],
        attention: _Attention,
        mlp: Callable[[int, Tensor], Tensor | None] | None = None,
        start: int = 0,
    ) -> Float[Tensor, "*axes sum"]:
        """Return the last layer's output from layer `start` on; `mlp` may replace what each MLP adds."""
        for number in range(start, len(self.layers)):
            x, between = attention(number, x)
            read = x if self.parallel else between
            added = self.layers[number].added_by_mlp(read) if mlp is None else mlp(number, read)
            x = between if added is None else between + added
        return x

    def past_last(self, residual: Float[Tensor, "*axes model"]) -> Float[Tensor, "*axes sum"]:
        """Return the sum that the last layer's attention adds to: the residual stream, or logits of folded weights."""
        return widened(F.linear(residual, self.W_U.T, self.bias_u)) if self.folded else residual

    def unembedded(self, residual: Float[Tensor, "*axes sum"]) -> Float[Tensor, "*axes token"]:
        """Return the logits (or outputs) of what comes out of the last layer."""
        if self.folded:
            return residual
        return capped(widened(F.linear(self.ln_final(residual), self.W_U.T, self.bias_u)), self.logit_cap)
