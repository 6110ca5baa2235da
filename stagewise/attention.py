"""Attention heads as numbers: patterns over the scored queries, one value a sequence; weights as circuits."""

import dataclasses
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from stagewise.loss import mean_scored

Patterns = Float[Tensor, "batch layer head query key"]

Factored = Any
"""TransformerLens's FactoredMatrix, A B with `.AB`, `.eigenvalues`, `.norm()`; naming the type would import it."""


def mass_by_query(
    pattern: Float[Tensor, "batch head query key"], relations: Bool[Tensor, "batch relation query key"]
) -> Float[Tensor, "batch relation head query"]:
    """Return the attention that falls on each relation's keys, query by query; in [0, 1].

    >>> pattern = torch.tensor([[1.0, 0.0], [0.3, 0.7]])[None, None]
    >>> diagonal = torch.eye(2, dtype=torch.bool)[None, None]
    >>> mass_by_query(pattern, diagonal)
    tensor([[[[1.0000, 0.7000]]]])
    """
    return torch.einsum("bhqk,brqk->brhq", pattern, relations.to(pattern.dtype))


class ScoredQueries(NamedTuple):
    """The attention of the queries whose prediction is scored in some sequence: averages need no others."""

    patterns: Float[Tensor, "batch layer head row key"]
    scored: Bool[Tensor, "batch row"]
    position: Int[Tensor, " row"]

    @classmethod
    def of(cls, patterns: Patterns, scored: Bool[Tensor, "batch query"]) -> "ScoredQueries":
        """Take them from the patterns of all queries, the last of as many positions as there are keys."""
        n_query, n_key = patterns.shape[-2:]
        rows = scored.any(0).nonzero()[:, 0]
        if len(rows) < n_query:
            patterns, scored = patterns[..., rows, :], scored[:, rows]
        return cls(patterns, scored, rows + n_key - n_query)

    def mean(self, values: Float[Tensor, "batch layer head row"]) -> Float[Tensor, "batch layer head"]:
        """Average values of the queries over those that are a sequence's own."""
        return mean_scored(values, self.scored)


def offset_profile(queries: ScoredQueries, max_offset: int) -> Float[Tensor, "batch layer head offset"]:
    """Return the attention at offset = query - key, for offsets 0 to max_offset, averaged over the scored queries."""
    patterns, scored, position = queries
    key = position[:, None] - torch.arange(max_offset + 1, device=patterns.device)
    index = key.clamp(min=0).expand(*patterns.shape[:-2], -1, -1)
    by_offset = patterns.gather(-1, index).masked_fill_(key < 0, 0.0)
    return mean_scored(by_offset.mT, scored)


@dataclasses.dataclass(frozen=True, eq=False)
class Circuits:
    """The weights that circuits are made of, as they are stored: normalisation and its gains are left out.

    Rows are inputs, columns outputs: x QK y^T is the attention score of query x and key y less its biases, x OV is what
    a head writes about x. Under grouped queries every query head has its own copy of the shared keys and values.

    Args:
        QK: W_Q W_K^T, [layer head model model] of rank d_head.
        OV: W_V W_O, [layer head model model] of rank d_head.
        W_E: embedding.
        W_U: unembedding, to tokens or to the outputs of a regression.
        W_pos: learned positions, None where a model has none.

    Source: Elhage et al. (2021), A Mathematical Framework for Transformer Circuits,
    transformer-circuits.pub/2021/framework.
    """

    QK: Factored
    OV: Factored
    W_E: Float[Tensor, "token model"]
    W_U: Float[Tensor, "model output"]
    W_pos: Float[Tensor, "pos model"] | None


def hooks_of(name: str, n_layers: int) -> tuple[str, ...]:
    """Name a hook of every layer.

    >>> hooks_of("attn.hook_pattern", 2)
    ('blocks.0.attn.hook_pattern', 'blocks.1.attn.hook_pattern')
    """
    return tuple(f"blocks.{layer}.{name}" for layer in range(n_layers))


def z_hook(layer: int) -> str:
    """Name the output of a layer's heads, [batch pos head d_head], which W_O maps into the residual stream.

    >>> z_hook(2)
    'blocks.2.attn.hook_z'
    """
    return f"blocks.{layer}.attn.hook_z"


def residual_hooks_of(n_layers: int) -> tuple[str, ...]:
    """Name the residual stream in front of every layer, and behind the last one."""
    return (*hooks_of("hook_resid_pre", n_layers), f"blocks.{n_layers - 1}.hook_resid_post")
