"""The attention of queries: summed over keys that hold the same token, and of single ones."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from stagewise.attention import Patterns


def on_same_token(patterns: Patterns, tokens: Int[Tensor, "batch key"]) -> Patterns:
    """Return, at each key, the attention that falls on all keys holding the same token.

    >>> pattern = torch.tensor([0.2, 0.3, 0.5]).view(1, 1, 1, 1, 3)
    >>> on_same_token(pattern, torch.tensor([[7, 4, 7]])).flatten()
    tensor([0.7000, 0.3000, 0.7000])
    """
    same = tokens[:, :, None] == tokens[:, None]
    return torch.einsum("blhqk,bkj->blhqj", patterns, same.to(patterns.dtype))


def once_a_token(tokens: Int[Tensor, "batch key"]) -> Float[Tensor, "batch key"]:
    """Return weights that count each token of a sequence once: one over how often it occurs.

    >>> once_a_token(torch.tensor([[7, 4, 7]]))
    tensor([[0.5000, 1.0000, 0.5000]])
    """
    return 1 / (tokens[:, :, None] == tokens[:, None]).sum(-1)


def scored_rows(
    patterns: Patterns, scored: Bool[Tensor, "batch query"], rows: int
) -> tuple[Float[Tensor, "layer head row key"], Int[Tensor, " row"]]:
    """Return the attention of the first so many scored queries, and the sequence that each belongs to."""
    sequence, query = (index[:rows] for index in scored.nonzero(as_tuple=True))
    return patterns[sequence, :, :, query].permute(1, 2, 0, 3), sequence
