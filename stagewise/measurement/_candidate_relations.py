"""The relations that a head is searched for, by their names: general ones, and those that attention points at."""

from collections.abc import Iterator
from itertools import product

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

_LONGEST_PERIOD = 16
"""Positions that a window or a period has at most."""

_FREQUENT = 8
"""Tokens, the most frequent ones, that are tried as separators, and in pairs as brackets."""

_BALANCED = 0.98
"""Part of the positions before which no more brackets are closed than opened."""

_POINTED = 2
"""Offsets, positions, tokens and differences of tokens that are taken from each head's attention."""

_CONTENT = (
    "duplicate token",
    "induction",
    "token[key - 2] == token[query]",
    "token[key - 3] == token[query]",
    "token[key + 1] == token[query] and key < query - 1",
    "token[key + 2] == token[query] and key < query - 2",
    "token[key - 1] == token[query - 1] and key < query",
    "token[key - 1] == token[query] and token[key - 2] == token[query - 1]",
    "token[key] > token[query]",
    "token[key] < token[query]",
    "smallest token[key] > token[query]",
    "largest token[key] < token[query]",
    "largest key <= query",
    "smallest key <= query",
    "commonest key <= query",
    "rarest key <= query",
)
"""Same token, its neighbours, the continuation of a repeated pair; order and frequency among the keys so far."""


def general(tokens: Int[Tensor, "batch pos"]) -> Iterator[str]:
    """Yield the relations that are tried on every head: of content, of windows, of separators, of brackets."""
    yield from _CONTENT
    for period in range(2, min(_LONGEST_PERIOD, tokens.shape[1] // 2) + 1):
        yield f"(query - key) % {period} == 0 and key < query"
        yield f"key == query - query % {period}"
    ids, counts = torch.unique(tokens, return_counts=True)
    frequent = ids[counts.argsort(descending=True, stable=True)][:_FREQUENT].tolist()
    yield from (f"{kind} {token}" for kind in ("same segment", "place in segment before") for token in frequent)
    pairs = [f"{a} {b}" for a, b in product(frequent, frequent) if a != b and _is_pair(tokens == a, tokens == b)]
    for chosen in dict.fromkeys([*pairs, " ".join(pairs)] if pairs else []):
        yield from (f"{kind} {chosen}" for kind in ("opening bracket", "innermost bracket", "bracket depth"))


def _is_pair(opens: Bool[Tensor, "batch pos"], closes: Bool[Tensor, "batch pos"]) -> bool:
    """Return whether one token opens what another closes: nearly always no more are closed, and two fifths are."""
    depth = (opens.long() - closes.long()).cumsum(1)
    return bool((depth >= 0).float().mean() >= _BALANCED) and bool(2.5 * closes.sum() >= opens.sum() > len(opens))


def pointed_at(excess: Float[Tensor, "batch query head key"], tokens: Int[Tensor, "batch pos"]) -> Iterator[str]:
    """Yield the offsets, positions, tokens and differences of tokens that heads attend to most beyond uniform."""
    mean = excess.mean(0)
    length, n_heads = len(mean), mean.shape[1]
    offsets = torch.stack([mean.diagonal(-back, 0, 2).sum(-1) for back in range(length)], 1)
    yield from (f"offset {back}" for back in _top(offsets))
    yield from (f"key == {position}" for position in _top(mean.sum(0)) if position)
    by_key = excess.sum(1).mT  # [batch key head]
    ids, which = torch.unique(tokens, return_inverse=True)
    for shift, name in ((0, "token[key] == {}"), (1, "token[key - 1] == {}")):
        sums = excess.new_zeros(len(ids), n_heads)
        sums.index_add_(0, which[:, : length - shift].flatten(), by_key[:, shift:].flatten(0, 1))
        yield from (name.format(ids[token].item()) for token in _top(sums.T))
    steps, which = torch.unique(tokens[:, None] - tokens[:, :, None], return_inverse=True)
    sums = excess.new_zeros(len(steps), n_heads).index_add_(0, which.flatten(), excess.transpose(2, 3).flatten(0, 2))
    for step in (int(steps[each]) for each in _top(sums.T)):
        if step:
            yield f"token[key] == token[query] {'+' if step > 0 else '-'} {abs(step)}"


def _top(values: Float[Tensor, "head value"]) -> list[int]:
    """Return the values that are the largest of some head, each once."""
    return sorted(set(values.topk(min(_POINTED, values.shape[1]), 1).indices.flatten().tolist()))
