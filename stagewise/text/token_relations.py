"""The relations between positions that hold in any sequence of tokens: previous token, induction and others."""

import ast
import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

WORDS = ("query", "key", "token", "and", "or")
"""The positions that attend and are attended to, counted from 0; `token[position]`; and what joins comparisons."""

GRAMMAR = "an expression of query, key, token[...], and, or, as 'token[key - 1] == token[query]'"
"""The form of an expression, in messages."""

_ARITHMETIC: Mapping[type, Callable[[Any, Any], Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul},
    **{ast.Mod: operator.mod, ast.FloorDiv: operator.floordiv},
}
_COMPARISONS: Mapping[type, Callable[[Any, Any], Any]] = {
    **{ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt},
    **{ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge},
}


CHOICES = ("latest", "earliest", "largest", "smallest", "commonest", "rarest")
"""Words before a relation that choose among its keys: by position, by token, and by its count up to the query."""

Relation = Bool[Tensor, "batch query key"]

Relations = Iterable[str] | Mapping[str, str | Relation | Callable[[Int[Tensor, "batch pos"]], Relation]]

RELATIONS = ("previous token", "duplicate token", "induction", "first token", "self")
"""Relations that hold in any sequence of tokens; beside them "offset N", the key N positions back."""


class _Value(NamedTuple):
    """A whole number for each query and key, and where there is one: beside the sequence there is no token."""

    numbers: Int[Tensor, "..."]
    exists: Bool[Tensor, "..."]


def _is_expression(text: str) -> bool:
    """Whether a text holds one of the words for positions, and so is meant as an expression."""
    return any(sign in text for sign in ("==", "<", ">", "!=", "[")) and any(word in text for word in WORDS[:3])


def _relation_of(text: str, tokens: Int[Tensor, "batch pos"]) -> Relation:
    """Return the keys up to each query of which an expression of comparisons, joined by `and` and `or`, is true."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError, ValueError) as reason:
        raise ValueError(f"the relation {text!r} is not {GRAMMAR}: {reason}") from reason
    position = torch.arange(tokens.shape[1], device=tokens.device)
    places = {"query": position[None, :, None], "key": position[None, None, :]}
    found = _Reader(text, tokens, places).truth(tree)
    return (found & (places["key"] <= places["query"])).expand(*tokens.shape, tokens.shape[1])


class _Reader(NamedTuple):
    """An expression's text, the tokens, and the positions by their words."""

    text: str
    tokens: Int[Tensor, "batch pos"]
    places: Mapping[str, Int[Tensor, "one query key"]]

    def truth(self, node: ast.expr) -> Bool[Tensor, "..."]:
        """Return where comparisons are true."""
        if isinstance(node, ast.BoolOp):
            join = operator.and_ if isinstance(node.op, ast.And) else operator.or_
            return functools.reduce(join, map(self.truth, node.values))
        if isinstance(node, ast.Compare) and all(type(each) in _COMPARISONS for each in node.ops):
            values = map(self.value, (node.left, *node.comparators))
            found = torch.ones(1, 1, 1, dtype=torch.bool, device=self.tokens.device)
            for compare, (left, right) in zip(node.ops, pairwise(values), strict=True):
                found = found & _COMPARISONS[type(compare)](left.numbers, right.numbers) & left.exists & right.exists
            return found
        raise self.refused(node)

    def value(self, node: ast.expr) -> _Value:
        """Return a position, a token, a number, or what is computed of these."""
        if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 2**31:
            return _Value(torch.tensor(node.value), torch.tensor(True))
        if isinstance(node, ast.Name) and node.id in self.places:
            return _Value(self.places[node.id], torch.tensor(True))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._computed(operator.sub, _Value(torch.tensor(0), torch.tensor(True)), self.value(node.operand))
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return self._computed(_ARITHMETIC[type(node.op)], self.value(node.left), self.value(node.right))
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "token":
            return self._token(self.value(node.slice))
        raise self.refused(node)

    def _computed(self, function: Callable[[Any, Any], Any], one: _Value, other: _Value) -> _Value:
        exists = one.exists & other.exists
        if function in (operator.mod, operator.floordiv):
            exists = exists & (other.numbers != 0)
            other = other._replace(numbers=other.numbers.where(other.numbers != 0, torch.tensor(1)))
        return _Value(function(one.numbers, other.numbers), exists)

    def _token(self, at: _Value) -> _Value:
        n, length = self.tokens.shape
        inside = (at.numbers >= 0) & (at.numbers < length)
        places = at.numbers.clamp(0, length - 1)
        places = places.view((1,) * (3 - places.ndim) + places.shape).expand(n, -1, -1)
        read = self.tokens.gather(1, places.reshape(n, -1)).view(places.shape)
        return _Value(read, at.exists & inside)

    def refused(self, node: ast.expr) -> ValueError:
        """Return the error for a part that is none of the language's."""
        part = ast.unparse(node)
        return ValueError(f"the relation {self.text!r} is not {GRAMMAR}: {part!r} is no part of one")


def _choose(word: str, keys: Relation, tokens: Int[Tensor, "batch pos"]) -> Relation:
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


def token_relation(name: str, tokens: Int[Tensor, "batch pos"], skipped: int = -1) -> Relation:
    """Return a relation that the tokens alone decide, by its name.

    From a query at position t: `previous token` is t - 1, `duplicate token` every earlier position that holds the same
    token, `induction` every position after one of these, `first token` is 0, `self` t, and `offset N` t - N.

    Args:
        name: one of `RELATIONS`, an offset, as "offset 31", or an expression of the `WORDS`, as
            "token[key - 1] == token[query]". "latest" before any of these keeps its latest key; so do the other
            `CHOICES`.
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
    choice, _, chosen_from = name.partition(" ")
    if choice in CHOICES:
        return _choose(choice, token_relation(chosen_from, tokens, skipped), tokens)
    offsets = {"self": "offset 0", "previous token": "offset 1"}
    if _is_expression(name):
        return _relation_of(name, tokens)
    if (match := re.fullmatch(r"offset (\d+)", offsets.get(name, name))) is None:
        others = f"{', '.join(RELATIONS)}, offset N, as offset 31, and {GRAMMAR}"
        raise ValueError(f"there is no relation {name!r}; there are {others}")
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
