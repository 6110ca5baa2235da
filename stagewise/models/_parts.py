"""The parts of a layer that the training and the measuring pass share: activations, norms, MLPs and soft caps."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


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

TRAINED_ACTIVATIONS = ("relu", "gelu", "silu")
"""Those of the training pass; models with others train by their hooks."""


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
        """Normalise each residual vector."""
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
        """Return the MLP's output."""
        # TransformerLens adds b_in behind the gate's product.
        if self.W_gate is None:
            hidden = self.act(F.linear(x, self.W_in.T, self.b_in))
        else:
            hidden = self.act(x @ self.W_gate) * (x @ self.W_in) + self.b_in
        return F.linear(hidden, self.W_out.T, self.b_out)


def capped(x: Tensor, cap: float | None) -> Tensor:
    """Return values squeezed into (-cap, cap), or as they are."""
    return x if cap is None else cap * (x / cap).tanh()
