"""The relations between positions that hold in any sequence of tokens: previous token, induction and others."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Relation = Bool[Tensor, "batch query key"]


def token_relations(tokens: Int[Tensor, "batch pos"], skipped: int = -1) -> dict[str, Relation]:
    """Return the relations that depend on the tokens alone.

    From a query at position t: `previous token` is t - 1, `duplicate token` every earlier position that holds the same
    token, `induction` every position after one of these, `first token` is 0, and `self` t.

    Args:
        tokens: of each sequence.
        skipped: a special token, as the one that begins a text, that is no duplicate of another; -1 for none.

    Source: Olsson et al. (2022), In-context Learning and Induction Heads, arXiv:2209.11895, prefix matching.

    >>> relations = token_relations(torch.tensor([[5, 7, 5, 7]]))
    >>> {name: relations[name][0, 3].int().tolist() for name in ("duplicate token", "induction")}
    {'duplicate token': [0, 1, 0, 0], 'induction': [0, 0, 1, 0]}
    """
    n, length = tokens.shape
    query, key = torch.arange(length)[:, None], torch.arange(length)[None]
    duplicate = (tokens[:, :, None] == tokens[:, None]) & (key < query) & (tokens != skipped)[:, None]
    induction = torch.zeros_like(duplicate)
    induction[:, :, 1:] = duplicate[:, :, :-1]
    return {
        "previous token": (key == query - 1).expand(n, -1, -1),
        "duplicate token": duplicate,
        "induction": induction,
        "first token": ((key == 0) & (query >= 0)).expand(n, -1, -1),
        "self": (key == query).expand(n, -1, -1),
    }
