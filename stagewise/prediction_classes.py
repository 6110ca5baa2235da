"""Classes of predictions: by the target token, the position, the relations there, and what the sequence repeats."""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from stagewise.task import Batch

ORDERS = 3
"""Longest n-gram whose repetition is told."""

_TOKEN = "of token "
"""The name of a class of one target, in front of its number."""

Class = tuple[str, Bool[Tensor, "batch pos"]]
"""Its name, as it follows "predictions", and which are in it."""


def prediction_classes(batch: Batch, tokens: Iterable[int]) -> dict[str, Bool[Tensor, "batch pos"]]:
    """Return which predictions are in each class, scored or not; a regression has none by token."""
    of_tokens = {f"{_TOKEN}{token}": batch.targets == token for token in tokens}
    by_place = dict(_by_position(batch))
    for name, keys in batch.relations.items():
        by_place |= {f"with {name}": keys.any(-1), f"without {name}": ~keys.any(-1)}
    return by_place if batch.is_regression else {**of_tokens, **by_place, **dict(_by_n_gram(batch))}


def without_classes(batch: Batch, names: Sequence[str]) -> Batch:
    """Return a batch in which the predictions of some classes are not scored."""
    tokens = [int(name.removeprefix(_TOKEN)) for name in names if re.fullmatch(f"{_TOKEN}[0-9]+", name)]
    classes = prediction_classes(batch, tokens)
    if unknown := [name for name in names if name not in classes]:
        known = ", ".join([f"{_TOKEN}7", *(name for name in classes if not name.startswith(_TOKEN))])
        raise ValueError(f"there is no class of predictions {unknown[0]!r} to leave out; there are {known}")
    scored = batch.scored & ~torch.stack([classes[name] for name in names]).any(0)
    if not bool(scored.any()):
        raise ValueError(f"no prediction is left to train on without those {', '.join(names)}: leave out fewer classes")
    return dataclasses.replace(batch, scored=scored)


def _by_position(batch: Batch) -> Iterator[Class]:
    """Yield ranges of positions, each twice as long as the one before it."""
    positions = torch.arange(batch.scored.shape[1], device=batch.scored.device).expand_as(batch.scored)
    first = 0
    while first < positions.shape[1]:
        last = min(2 * first, positions.shape[1] - 1)
        name = f"at positions {first} to {last}" if last > first else f"at position {first}"
        yield name, (positions >= first) & (positions <= last)
        first = last + 1


def _by_n_gram(batch: Batch) -> Iterator[Class]:
    """Yield predictions by the longest n-gram that they repeat: its last token is the target, others stand before."""
    tokens = batch.token_ids("a class of predictions")
    earlier = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool, device=tokens.device).tril()
    equal = tokens[:, :, None] == tokens[:, None]
    repeated = (batch.targets[:, :, None] == tokens[:, None]) & earlier
    longest = repeated.any(-1).long()
    for order in range(1, ORDERS):
        before = equal.roll((order - 1, order), (1, 2))
        before[:, :, :order] = False  # where the roll brings keys from the end
        repeated = repeated & before
        longest += repeated.any(-1)
    yield "of new tokens", longest == 0
    for order in range(1, ORDERS + 1):
        yield f"that repeat {order} {'token' if order == 1 else 'tokens'}", longest == order
