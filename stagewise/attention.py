"""Summaries of attention patterns over the scored queries, one value a sequence."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from stagewise.loss import mean_scored

Patterns = Float[Tensor, "batch layer head query key"]


def mass_on(
    patterns: Patterns,
    relation: Bool[Tensor, "batch query key"],
    scored: Bool[Tensor, "batch query"],
) -> Float[Tensor, "batch layer head"]:
    """Return the attention that falls on a relation's keys, averaged over the scored queries; in [0, 1].

    >>> patterns = torch.tensor([[1.0, 0.0], [0.3, 0.7]]).view(1, 1, 1, 2, 2)
    >>> itself = torch.eye(2, dtype=torch.bool)[None]
    >>> mass_on(patterns, itself, torch.tensor([[False, True]])).item()
    0.699999988079071
    """
    return mean_scored(torch.einsum("blhqk,bqk->blhq", patterns, relation.to(patterns.dtype)), scored)


def offset_profile(
    patterns: Patterns, scored: Bool[Tensor, "batch query"], max_offset: int
) -> Float[Tensor, "batch layer head offset"]:
    """Return the attention at offset = query - key, for offsets 0 to max_offset, averaged over the scored queries."""
    n_query, n_key = patterns.shape[-2:]
    key = torch.arange(n_key - n_query, n_key)[:, None] - torch.arange(max_offset + 1)
    key = key.to(patterns.device)
    index = key.clamp(min=0).expand(*patterns.shape[:-2], -1, -1)
    by_offset = torch.where(key >= 0, patterns.gather(-1, index), 0.0)
    return mean_scored(by_offset.transpose(-1, -2), scored)
