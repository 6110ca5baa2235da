"""Relations that brackets and separators make, and a choice among the keys of any relation."""

import re
from collections.abc import Callable, Mapping

import torch
from jaxtyping import Bool, Int
from torch import Tensor

_Keys = Bool[Tensor, "batch query key"]

STRUCTURES = ("opening bracket", "innermost bracket", "bracket depth", "same segment", "place in segment before")
"""Relations of tokens that open, close or separate, which follow the name: "opening bracket 5 9", "same segment 3"."""

CHOICES = ("latest", "earliest", "largest", "smallest", "commonest", "rarest")
"""Words before a relation that choose among its keys: by position, by token, and by its count up to the query."""


def choose(word: str, keys: _Keys, tokens: Int[Tensor, "batch pos"]) -> _Keys:
    """Return the keys that are, of those from the same query, the latest, the largest, the rarest, ...; ties stay."""
    if word in ("latest", "earliest"):
        measure = torch.arange(tokens.shape[1], device=tokens.device).expand(keys.shape)
    elif word in ("largest", "smallest"):
        measure = tokens[:, None].expand(keys.shape)
    else:
        measure = (tokens[:, :, None] == tokens[:, None]).cumsum(1)
    measure = measure if word in ("latest", "largest", "commonest") else -measure
    measure = measure.masked_fill(~keys, torch.iinfo(torch.int64).min)
    return keys & (measure == measure.amax(-1, keepdim=True))


def structure(name: str, tokens: Int[Tensor, "batch pos"]) -> _Keys | None:
    """Return a relation of `STRUCTURES` with its tokens; None where it is none.

    Brackets, one pair of tokens or more: `opening bracket` is, from a closing one, the one that it closes, `innermost
    bracket`, from every query, the latest that is still open, `bracket depth` all earlier keys that are as deep. A
    separator ends a segment: `same segment` is its earlier keys, `place in segment before` the key as many positions
    behind the start of the segment before.
    """
    match = re.fullmatch(rf"({'|'.join(STRUCTURES)})((?: -?\d+)+)", name)
    if match is None:
        return None
    kind, given = match[1], [int(each) for each in match[2].split()]
    brackets = "bracket" in kind
    if (brackets and len(given) % 2) or (not brackets and len(given) != 1):
        raise ValueError(f"{kind} takes {'pairs of tokens' if brackets else 'one token'}, got {name!r}")
    if not brackets:
        return _SEGMENTS[kind](tokens == given[0])
    found = torch.zeros(*tokens.shape, tokens.shape[1], dtype=torch.bool, device=tokens.device)
    if kind == "bracket depth":
        opens, closes = (torch.isin(tokens, tokens.new_tensor(given[side::2])).long() for side in range(2))
        return _same(_before(opens - closes), 0)
    for opening, closing in zip(given[::2], given[1::2], strict=True):
        opens, closes = tokens == opening, tokens == closing
        level = _before(opens.long() - closes.long())
        inner = choose("latest", _same(level, 1) & opens[:, None], tokens)
        found |= inner & closes[:, :, None] if kind == "opening bracket" else inner
    return found if kind == "opening bracket" else choose("latest", found, tokens)


def _before(values: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
    """Return the sum of the values before each position."""
    return values.cumsum(1) - values


def _same(values: Int[Tensor, "batch pos"], less: int) -> _Keys:
    """Return the earlier keys whose value is the query's, or by so much less."""
    return (values[:, :, None] - less == values[:, None]).tril(-1)


def _place_before(ends: Bool[Tensor, "batch pos"]) -> _Keys:
    position = torch.arange(ends.shape[1], device=ends.device)
    last = torch.where(ends, position, -1).cummax(1).values
    place = position - torch.nn.functional.pad(last, (1, 0), value=-1)[:, :-1]
    return _same(_before(ends.long()), 1) & (place[:, :, None] == place[:, None])


_SEGMENTS: Mapping[str, Callable[[Bool[Tensor, "batch pos"]], _Keys]] = {
    "same segment": lambda ends: _same(_before(ends.long()), 0),
    "place in segment before": _place_before,
}
