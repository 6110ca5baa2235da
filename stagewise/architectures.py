"""Architectures by name: the minimal model of a paper, an ordinary transformer, and others of another shape."""

import dataclasses
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Generator, Tensor

from stagewise.architecture import Architecture
from stagewise.init import AbstractInit, Config, InitialWeights, Shapes, uniform, zeros


@dataclasses.dataclass(frozen=True)
class OneHotInit(AbstractInit):
    """The minimal architecture, wired inside an attention-only HookedTransformer without norms.

        score_ij = (W_Q^h x_i) . x_j / sqrt(D),   x_i <- sum_h sum_j a^h_ij W_V^h x_j,   logits_i = (x_i)_{1..d}

    x starts as one-hot token (d) beside one-hot position (L), D = d + L. The residual stream holds a block for the
    input of every layer, the last one's d outputs behind them. W_E and W_pos write the first block, the heads of a
    layer read their own block and write the next one, W_U reads only the last, so nothing skips the heads. W_Q and
    W_V train; everything else, and the padding inside W_Q and W_V (whose gradient is exactly zero), stays as it is.

    Args:
        query_scale: W_Q ~ U(-s, s), or "xavier". Under about 1e-6 the heads of a float32 model can stay
            bit-identical for hundreds of steps: their difference is lost in the first Adam step. At 0, with values of
            0, they are one by symmetry: their gradients are averaged, or else rounding would part them late.
        value_scale: W_V = 0, or "xavier". Two layers of zeros have no gradient at all.

    Source: Yüksel et al. (2026), arXiv:2602.19143, the minimal architecture of Figures 1, 4 and 11. The part that
    layers pass on in Figure 11 is not recorded: here it is all D coordinates.
    """

    query_scale: float | Literal["xavier"] = 1e-3
    value_scale: Literal[0, "xavier"] = 0

    @property
    def averaged(self) -> tuple[str, ...]:
        """Queries and values, where all heads start alike."""
        return ("*.W_Q", "*.W_V") if self.query_scale == 0 == self.value_scale else ()

    def initial(self, cfg: Config, shapes: Shapes, generator: Generator) -> InitialWeights:
        """Return the wiring and the initial W_Q and W_V.

        Raises:
            ValueError: the config is not the one that `architecture.minimal` makes, or nothing could train.
        """
        layers, d, width = cfg.n_layers, cfg.d_vocab, cfg.d_vocab + cfg.n_ctx
        if (cfg.d_head, cfg.d_model) != (width, layers * width + d):
            raise ValueError(
                f"OneHotInit needs d_head = d_vocab + n_ctx = {width} and, with {layers} layer(s), "
                f"d_model = {layers * width + d}; got d_head = {cfg.d_head}, d_model = {cfg.d_model}"
            )
        if layers > 1 and self.value_scale == 0:
            raise ValueError('two layers that write nothing have no gradient: give value_scale "xavier", got 0')
        tensors = zeros(shapes)
        tensors["embed.W_E"][:, :d] = torch.eye(d)
        tensors["pos_embed.W_pos"][:, d:width] = torch.eye(cfg.n_ctx)
        tensors["unembed.W_U"][layers * width :] = torch.eye(d)
        for layer in range(layers):
            self._wire(tensors, layer, width, d if layer == layers - 1 else width, generator)
        return InitialWeights(tensors, frozenset(name for name in shapes if not name.endswith((".W_Q", ".W_V"))))

    def _wire(self, tensors: Mapping[str, Tensor], layer: int, width: int, written: int, generator: Generator) -> None:
        """Let a layer's heads read its own block, and write the first `written` numbers of the next one."""
        W_Q, W_K, W_V, W_O = (tensors[f"blocks.{layer}.attn.W_{name}"] for name in "QKVO")
        xavier = (6 / (2 * width)) ** 0.5
        start = layer * width
        read, write = slice(start, start + width), slice(start + width, start + width + written)
        W_K[:, read] = torch.eye(width)
        W_O[:, :written, write] = torch.eye(written)
        scale = xavier if self.query_scale == "xavier" else self.query_scale
        W_Q[:, read] = uniform(W_Q[:, read].shape, scale, generator)
        if self.value_scale == "xavier":
            W_V[:, read, :written] = uniform(W_V[:, read, :written].shape, xavier, generator)


def minimal(
    d_vocab: int, n_ctx: int, n_heads: int = 3, init: OneHotInit | None = None, n_layers: int = 1
) -> Architecture:
    """Return the paper's minimal architecture: one-hot inputs, no skip, norm, key or output projection.

    Several layers start from Xavier's scale where no init is given, one from zero values.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 4, of two layers Figure 11; see `OneHotInit`.
    """
    width = d_vocab + n_ctx
    config = {
        **{"n_layers": n_layers, "n_heads": n_heads, "d_head": width, "d_model": n_layers * width + d_vocab},
        **{"n_ctx": n_ctx, "d_vocab": d_vocab, "attn_only": True, "normalization_type": None},
    }
    return Architecture(config, init or (OneHotInit() if n_layers == 1 else OneHotInit("xavier", "xavier")))


def full(
    d_vocab: int, n_ctx: int, n_layers: int = 1, n_heads: int = 3, d_model: int = 48, d_mlp: int = 64
) -> Architecture:
    """Return an ordinary small transformer: learned positions, a ReLU MLP, LayerNorm.

    Source: Yüksel et al. (2026), arXiv:2602.19143, the transformer of Figures 2 and 3. Deviations: TransformerLens
    normalises before each layer (the paper after it), there is no dropout, and weights start Gaussian.
    """
    return Architecture(
        {
            **{"n_layers": n_layers, "n_heads": n_heads, "d_head": d_model // max(n_heads, 1), "d_model": d_model},
            **{"d_mlp": d_mlp, "n_ctx": n_ctx, "d_vocab": d_vocab, "act_fn": "relu", "normalization_type": "LN"},
        }
    )


def reshaped(architecture: Architecture, n_heads: int | None, n_layers: int | None) -> Architecture:
    """Return the architecture with other numbers of heads, of the same width in all, and layers; None leaves them.

    >>> reshaped(full(d_vocab=5, n_ctx=7), n_heads=2, n_layers=None).config["d_head"]
    24
    """
    config = dict(architecture.config)
    if n_heads is not None:
        config |= {"n_heads": n_heads, "d_head": config["d_model"] // max(n_heads, 1)}
    if n_layers is not None:
        config["n_layers"] = n_layers
    return dataclasses.replace(architecture, config=config)


def resized(architecture: Architecture, n_ctx: int) -> Architecture:
    """Return the same kind of model for another context length.

    >>> resized(minimal(d_vocab=5, n_ctx=7), 2).config["d_head"]
    7
    """
    if isinstance(architecture.init, OneHotInit):
        d_vocab, layers = architecture.config["d_vocab"], architecture.n_layers
        return minimal(d_vocab, n_ctx, architecture.n_heads, architecture.init, layers)
    return dataclasses.replace(architecture, config={**architecture.config, "n_ctx": n_ctx})
