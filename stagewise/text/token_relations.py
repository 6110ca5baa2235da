"""The relations between positions that hold in any sequence of tokens: previous token, induction and others."""

import re
from collections.abc import Callable, Iterable, Mapping

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Relation = Bool[Tensor, "batch query key"]

Relations = Iterable[str] | Mapping[str, str | Relation | Callable[[Int[Tensor, "batch pos"]], Relation]]

RELATIONS = ("previous token", "duplicate token", "induction", "first token", "self")
"""Relations that hold in any sequence of tokens; beside them "offset N", the key N positions back."""


def token_relation(name: str, tokens: Int[Tensor, "batch pos"], skipped: int = -1) -> Relation:
    """Return a relation that the tokens alone decide, by its name.

    From a query at position t: `previous token` is t - 1, `duplicate token` every earlier position that holds the same
    token, `induction` every position after one of these, `first token` is 0, `self` t, and `offset N` t - N.

    Args:
        name: one of `RELATIONS`, or an offset, as "offset 31".
        tokens: of each sequence.
        skipped: a special token, as the one that begins a text, that is no duplicate of another; -1 for none.

    Raises:
        ValueError: there is no such relation.

    Source: Olsson et al. (2022), In-context Learning and Induction Heads, arXiv:2209.11895, prefix matching.

    >>> [token_relation(name, torch.tensor([[5, 7, 5, 7]]))[0, 3].int().tolist() for name in ("induction", "offset 3")]
    [[0, 0, 1, 0], [1, 0, 0, 0]]
    """
    length = tokens.shape[1]
    key = torch.arange(length, device=tokens.device)
    back = (key[:, None] - key).expand(len(tokens), -1, -1)
    if name in ("duplicate token", "induction"):
        same = (tokens[:, :, None] == tokens[:, None]) & (back > 0) & (tokens != skipped)[:, None]
        return same if name == "duplicate token" else torch.nn.functional.pad(same[..., :-1], (1, 0))
    if name == "first token":
        return (key == 0).expand(len(tokens), length, -1)
    offsets = {"self": "offset 0", "previous token": "offset 1"}
    if (match := re.fullmatch(r"offset (\d+)", offsets.get(name, name))) is None:
        others = f"{', '.join(RELATIONS)}, and offset N, as offset 31"
        raise ValueError(f"there is no relation {name!r}; there are {others}. Others are functions of the tokens")
    return back == int(match[1])


def token_relations(
    tokens: Int[Tensor, "batch pos"], relations: Relations = RELATIONS, skipped: int = -1
) -> dict[str, Relation]:
    """Return relations of tokens: by the names of `token_relation`, by functions of the tokens, or as masks."""
    named = relations if isinstance(relations, Mapping) else {name: name for name in relations}
    masks: dict[str, Relation] = {}
    for name, relation in named.items():
        if isinstance(relation, str):
            masks[name] = token_relation(relation, tokens, skipped)
            continue
        mask = relation(tokens) if callable(relation) else relation
        size = (*tokens.shape, tokens.shape[1])
        if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.ndim != 3:
            given = f"{mask.dtype} {tuple(mask.shape)}" if isinstance(mask, Tensor) else repr(mask)
            raise ValueError(f"the relation {name!r} is a Bool[batch query key] of size {size}, got {given}")
        masks[name] = mask.expand(size)
    return masks
