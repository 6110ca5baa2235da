"""One matrix of embeddings for reading tokens and for answering, learned or drawn anew at every step of training."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from stagewise.init import AbstractInit, Config, InitialWeights, Shapes
from stagewise.papers.linear_init import LinearInit

_EMBED = "hook_embed"
"""The hook point that embeds one-hot tokens; its parameter is the matrix."""


@dataclasses.dataclass(frozen=True)
class SharedEmbeddings(AbstractInit):
    """Token embeddings N(0, 1) that are the unembedding too, over the root of the width; else those of `LinearInit`.

    The model embeds tokens as one-hot vectors, which needs a width of the number of tokens at least; a hook multiplies
    them by the matrix, and another the last residual stream, less the token's own embedding, by its transpose: left
    in, it would answer the token itself. Measured checkpoints have one matrix.

    Args:
        resampled: whether each step of training draws the matrix anew; else it is learned.

    Source: Liu (2026), Sparse attention 8, https://kindxiaoming.github.io/blog/2026/sparse-attention-8, which does not
    say how answers are read: with embeddings that are drawn anew it can only be by themselves.
    """

    resampled: bool = False

    @property
    def draws(self) -> bool:
        """Whether it draws the embeddings of each step."""
        return self.resampled

    def initial(self, cfg: Config, shapes: Shapes, generator: Generator) -> InitialWeights:
        """Draw the weights parameter by parameter, and then the matrix.

        Raises:
            ValueError: the model is narrower than the number of tokens.
        """
        if cfg.d_model < cfg.d_vocab:
            raise ValueError(f"d_model is the number of tokens at least, got {cfg.d_model} for {cfg.d_vocab} tokens")
        base, shared = LinearInit().initial(cfg, shapes, generator), _Shared(self.resampled)
        fixed = {"embed.W_E": torch.eye(cfg.d_vocab, cfg.d_model), "unembed.W_U": torch.eye(cfg.d_model, cfg.d_vocab)}
        fixed |= {name: torch.zeros(*shapes[name]) for name in ("unembed.b_U",) if name in shapes}
        matrix = {f"{_EMBED}.w": torch.randn(cfg.d_vocab, cfg.d_model, generator=generator)}
        hooks: dict[str, Callable[[Tensor, Any], Tensor]] = {
            _EMBED: shared.embedded,
            f"blocks.{cfg.n_layers - 1}.hook_resid_post": shared.read,
        }
        frozen = base.frozen | fixed.keys() | (matrix.keys() if self.resampled else set())
        return InitialWeights({**base.tensors, **fixed, **matrix}, frozenset(frozen), hooks)


class _Shared:
    """The matrix of the pass that is under way."""

    def __init__(self, resampled: bool) -> None:
        self.resampled = resampled
        self.matrix: Float[Tensor, "token model"] | None = None
        self.tokens: Float[Tensor, "batch pos model"] | None = None

    def embedded(self, one_hot: Tensor, hook: Any) -> Tensor:
        """Return the tokens' embeddings, drawn anew in training where it is asked for."""
        self.matrix = torch.randn_like(hook.w) if self.resampled and hook.training else hook.w
        self.tokens = one_hot[..., : len(self.matrix)] @ self.matrix
        return self.tokens

    def read(self, residual: Tensor, hook: Any) -> Tensor:
        """Return the logits of what was added to the tokens' embeddings, and zeros up to the model's width."""
        assert self.matrix is not None
        assert self.tokens is not None
        logits = (residual - self.tokens) @ self.matrix.T / residual.shape[-1] ** 0.5
        return torch.nn.functional.pad(logits, (0, residual.shape[-1] - logits.shape[-1]))
