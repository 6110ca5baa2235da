"""Architectures by name: the minimal model of a paper, an ordinary transformer, and others of another shape."""

import dataclasses

from stagewise.architecture import Architecture
from stagewise.wired_init import OneHotInit as OneHotInit


def minimal(
    d_vocab: int, n_ctx: int, n_heads: int = 3, init: OneHotInit | None = None, n_layers: int = 1
) -> Architecture:
    """Return the paper's minimal architecture: one-hot inputs, no skip, norm, key or output projection.

    Several layers start from Xavier's scale where no init is given, one from zero values.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 4, of two layers Figure 11; see `OneHotInit`.
    """
    width = d_vocab + n_ctx
    config = {
        "n_layers": n_layers,
        "n_heads": n_heads,
        "d_head": width,
        "d_model": n_layers * width + d_vocab,
        "n_ctx": n_ctx,
        "d_vocab": d_vocab,
        "attn_only": True,
        "normalization_type": None,
    }
    return Architecture(config, init or (OneHotInit() if n_layers == 1 else OneHotInit("xavier", "xavier")))


def full(
    d_vocab: int, n_ctx: int, n_layers: int = 1, n_heads: int = 3, d_model: int = 48, d_mlp: int = 64
) -> Architecture:
    """Return an ordinary small transformer: learned positions, a ReLU MLP, LayerNorm.

    Source: Yüksel et al. (2026), arXiv:2602.19143, the transformer of Figures 2 and 3. Deviations: TransformerLens
    normalises before each layer (the paper after it), there is no dropout, and weights start Gaussian.
    """
    config = {
        "n_layers": n_layers,
        "n_heads": n_heads,
        "d_head": d_model // max(n_heads, 1),
        "d_model": d_model,
        "d_mlp": d_mlp,
        "n_ctx": n_ctx,
        "d_vocab": d_vocab,
        "act_fn": "relu",
        "normalization_type": "LN",
    }
    return Architecture(config)


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
