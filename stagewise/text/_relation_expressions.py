"""Relations as expressions of five words: query, key, token, and, or; read here, and never run as code."""

import ast
import operator
from collections.abc import Callable, Mapping
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


class _Value(NamedTuple):
    """A whole number for each query and key, and where there is one: beside the sequence there is no token."""

    numbers: Int[Tensor, "..."]
    exists: Bool[Tensor, "..."]


def _whole(numbers: Int[Tensor, "..."]) -> _Value:
    return _Value(numbers, torch.ones_like(numbers, dtype=torch.bool))


def is_expression(text: str) -> bool:
    """Whether a text holds one of the words for positions, and so is meant as an expression."""
    return any(sign in text for sign in ("==", "<", ">", "!=", "[")) and any(word in text for word in WORDS[:3])


def relation_of(text: str, tokens: Int[Tensor, "batch pos"]) -> Bool[Tensor, "batch query key"]:
    """Return the keys, from each query, of which an expression is true; those behind the query are never among them.

    It is comparisons of whole numbers, joined by `and` and `or`: `query` and `key` are positions, `token[...]` is the
    token at one; with + - * // % and brackets. A comparison with a token beside the sequence is false.
    """
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
            first, *others = map(self.truth, node.values)
            for other in others:
                first = join(first, other)
            return first
        if isinstance(node, ast.Compare) and all(type(each) in _COMPARISONS for each in node.ops):
            values = [self.value(each) for each in (node.left, *node.comparators)]
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
            return self._computed(operator.sub, _whole(torch.tensor(0)), self.value(node.operand))
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
