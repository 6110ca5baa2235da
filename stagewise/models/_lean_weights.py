"""A model's parameters as the lean pass multiplies with them, and its way through the layers."""

import dataclasses
from collections.abc import Callable, Sequence

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise.models._numbers import widened
from stagewise.models._parts import Mlp, Norm, capped


@dataclasses.dataclass(frozen=True, eq=False)
class Layer:
    """A layer's weights, q, k and v side by side; norms that are absent are None, cos and sin are those of rotary
    positions.
    """

    ln1: Norm
    W_QKV: Float[Tensor, "model columns"]
    bias_qkv: Float[Tensor, " columns"]
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
        self, x: Float[Tensor, "batch query sum"], written: Float[Tensor, "*#batch written"]
    ) -> Float[Tensor, "batch query sum"]:
        """Return the residual stream between attention and MLP, from the one in front and what attention wrote."""
        return x + (written if self.ln1_post is None else self.ln1_post(written))

    def added_by_mlp(self, x: Float[Tensor, "batch query model"]) -> Float[Tensor, "batch query model"] | None:
        """Return the MLP's output to the residual stream, from its input; None without an MLP."""
        if self.mlp is None or self.ln2 is None:
            return None
        hidden = widened(self.mlp(self.ln2(x)))
        return hidden if self.ln2_post is None else self.ln2_post(hidden)


_Attention = Callable[[int, Tensor], tuple[Tensor, Tensor]]
"""From a layer's number and the residual stream in front of it to what attention adds to, and what it writes."""


@dataclasses.dataclass(frozen=True, eq=False)
class LeanWeights:
    """All that the lean pass reads of a model; `shown` names the clean pass's q, k and v of the first layer."""

    layers: Sequence[Layer]
    n_heads: int
    n_kv_heads: int
    d_head: int
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
    ) -> Float[Tensor, "batch query sum"]:
        """Return the last layer's output from layer `start` on; `mlp` may replace what each MLP adds."""
        for number in range(start, len(self.layers)):
            x, written = attention(number, x)
            between = self.layers[number].behind_attention(x, written)
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
