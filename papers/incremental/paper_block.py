"""The paper's own block inside a HookedTransformer: norms behind attention and MLP, its initial weights, dropout."""

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from stagewise.architecture import Architecture
from stagewise.architectures import full
from stagewise.fields import Range
from stagewise.init import AbstractInit, Config, InitialWeights, Shapes

_NORMED = ("hook_resid_mid", "hook_resid_post")
"""Where a block's norms stand in the residual stream."""

_DROPPED = ("attn.hook_pattern", "hook_attn_out", "hook_mlp_out")
"""Where a block drops numbers in training, beside the sum of embeddings and positions."""


@dataclasses.dataclass(frozen=True)
class PaperBlockInit(AbstractInit):
    """The transformer of the paper in a config without norms: x <- LN(x + attention(x)), x <- LN(x + MLP(x)).

    The norms are hooks that stay with the model, and normalise the residual stream itself; their gain `w` and shift `b`
    are parameters of the hook points. Embedding and unembedding start orthogonal, other weights as Xavier's, uniform.
    Attention and unembedding have no biases: they stay zero. While the model trains, numbers are dropped where the
    paper drops them; a checkpoint that is measured drops none.

    Args:
        dropout: the share of embeddings, attention weights and outputs of attention and MLP that is dropped.

    Source: Yüksel et al. (2026), arXiv:2602.19143, the transformer of Figures 2, 3, 8, 9, 12, 18 and 19.
    """

    dropout: Annotated[float, Range(0, 1)] = 0.1

    @property
    def draws(self) -> bool:
        """Whether it drops anything."""
        return self.dropout > 0

    def initial(self, cfg: Config, shapes: Shapes, generator: Generator) -> InitialWeights:
        """Draw the weights parameter by parameter, in the order of their names.

        Raises:
            ValueError: the config has norms of its own.
        """
        if "blocks.0.ln1.w" in shapes or "ln_final.w" in shapes:
            raise ValueError("PaperBlockInit has its own norms: give normalization_type None")
        tensors = {name: _drawn(name, torch.zeros(*shape), generator) for name, shape in sorted(shapes.items())}
        frozen = {name for name in tensors if ".attn.b_" in name or name == "unembed.b_U"}
        hooks: dict[str, Callable[[Tensor, Any], Tensor]] = {}
        for block in (f"blocks.{layer}." for layer in range(cfg.n_layers)):
            for name in _NORMED:
                hooks[block + name] = _normalised
                tensors |= {f"{block}{name}.w": torch.ones(cfg.d_model), f"{block}{name}.b": torch.zeros(cfg.d_model)}
            hooks |= {block + name: self._dropped for name in _DROPPED} if self.draws else {}
        if self.draws:
            hooks["blocks.0.hook_resid_pre"] = self._dropped
        return InitialWeights(tensors, frozenset(frozen), hooks)

    def _dropped(self, activation: Tensor, hook: Any) -> Tensor:
        return F.dropout(activation, self.dropout, training=hook.training)


def paper_block(
    d_vocab: int, n_ctx: int, n_layers: int = 1, n_heads: int = 3, d_model: int = 48, d_mlp: int = 64
) -> Architecture:
    """Return `architectures.full` with the paper's own block: see `PaperBlockInit`."""
    config = full(d_vocab, n_ctx, n_layers, n_heads, d_model, d_mlp).config
    return Architecture({**config, "normalization_type": None}, PaperBlockInit())


def _drawn(name: str, weight: Tensor, generator: Generator) -> Tensor:
    last = name.rpartition(".")[2]
    if last in ("W_E", "W_U"):
        return torch.nn.init.orthogonal_(weight, generator=generator)
    if not last.startswith("W_"):
        return weight
    # Heads are parts of one map of the residual stream's width.
    sizes = weight.shape if weight.ndim == 2 else (weight.shape[0] * min(weight.shape[1:]), max(weight.shape[1:]))
    bound = (6 / sum(sizes)) ** 0.5
    return weight.uniform_(-bound, bound, generator=generator)


def _normalised(residual: Tensor, hook: Any) -> Tensor:
    return F.layer_norm(residual, residual.shape[-1:], hook.w, hook.b)
