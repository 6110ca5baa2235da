"""Heads that attend by position alone, on input vectors: the architecture of a proposition, and its initialisation."""

import dataclasses

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from stagewise.architecture import Architecture
from stagewise.init import AbstractInit, Config, InitialWeights, Shapes, zeros


def position_heads(
    d: int, n_ctx: int, n_heads: int = 3, logits: tuple[tuple[float, ...], ...] | float = 1e-3
) -> Architecture:
    """Return heads that attend by position alone, on input vectors of size d; see `PositionHeadsInit`.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Proposition 1.
    """
    sizes = {"n_layers": 1, "n_heads": n_heads, "d_head": max(d, n_ctx), "d_model": 2 * d + n_ctx, "n_ctx": n_ctx}
    config = {**sizes, "d_vocab": d, "attn_only": True, "normalization_type": None}
    return Architecture(config, PositionHeadsInit(logits))


@dataclasses.dataclass(frozen=True)
class PositionHeadsInit(AbstractInit):
    """Heads that attend by position alone, wired inside an attention-only HookedTransformer without norms.

        y_T = sum_h V_h sum_j softmax(a_h)_j x_j,   a_h = b_Q^h,   V_h = (W_O^h restricted to the outputs)^T = 0

    The residual stream holds the input vector, the one-hot position and the output. Keys are the one-hot positions
    (times what scores are divided by), every query is b_Q: it holds the attention logits at the last position, the one
    that sees all keys. W_V passes the input on, W_O is the only value map. b_Q and W_O train; everything else, and the
    padding inside W_O (whose gradient is exactly zero), stays as it is.

    Args:
        logits: a_h at the start, by head and position; or the standard deviation of Gaussian ones. Heads that start
            equal separate by sampling noise alone.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Proposition 1: the minimal architecture at the last query, with the
    part of its scores that depends on positions. On white inputs the rest has no gradient on average.
    """

    logits: tuple[tuple[float, ...], ...] | float = 1e-3

    def initial(self, cfg: Config, shapes: Shapes, generator: Generator) -> InitialWeights:
        """Return the wiring, the logits, and values of zero.

        Raises:
            ValueError: the config is not the one that `architecture.position_heads` makes, or the logits do not fit.
        """
        d, positions = cfg.d_vocab, cfg.n_ctx
        expected, got = (1, max(d, positions), 2 * d + positions), (cfg.n_layers, cfg.d_head, cfg.d_model)
        if got != expected:
            raise ValueError(f"PositionHeadsInit needs (n_layers, d_head, d_model) = {expected}; got {got}")
        scale = cfg.attn_scale if cfg.attn_scale > 0 else cfg.d_head**0.5  # scores are divided by it
        tensors, attention = zeros(shapes), "blocks.0.attn."
        tensors["embed.W_E"][:, :d] = torch.eye(d)
        tensors["pos_embed.W_pos"][:, d : d + positions] = torch.eye(positions)
        tensors["unembed.W_U"][d + positions :] = torch.eye(d)
        tensors[f"{attention}W_K"][:, d : d + positions, :positions] = scale * torch.eye(positions)
        tensors[f"{attention}W_V"][:, :d, :d] = torch.eye(d)
        tensors[f"{attention}b_Q"][:, :positions] = self._logits(cfg.n_heads, positions, generator)
        return InitialWeights(tensors, frozenset(shapes) - {f"{attention}b_Q", f"{attention}W_O"})

    def _logits(self, n_heads: int, positions: int, generator: Generator) -> Float[Tensor, "head pos"]:
        if not isinstance(self.logits, tuple):
            return self.logits * torch.randn(n_heads, positions, generator=generator)
        if {len(row) for row in self.logits} != {positions} or len(self.logits) != n_heads:
            raise ValueError(f"logits are {n_heads} rows (heads) of {positions} numbers (positions), got {self.logits}")
        return torch.tensor(self.logits)
