"""Fields of frozen dataclasses, held to their types and ranges before anything else is done with them."""

import collections.abc
import dataclasses
import json
import math
import numbers
import os
import reprlib
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Literal

_SEQUENCES = (tuple, list, collections.abc.Sequence, collections.abc.Iterable)
_PLAIN = {int: "a whole number", float: "a finite number", str: "text", bool: "true or false", type(None): "null"}


@dataclasses.dataclass(frozen=True)
class Range:
    """The numbers that a field takes, written with its type: `Annotated[float, Range(0, 1)]`. Both ends are in it."""

    low: int | float
    high: int | float

    def __str__(self) -> str:
        return f"from {self.low:g} to {self.high:g}" if self.high < _LARGE else f"of at least {self.low:g}"


_LARGE = 2**62  # fits into 64 bits, with room to add
MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 2**36
"""Bytes that anything takes at most that is read or built: what the machine has."""

Count = Annotated[int, Range(1, math.inf)]
Natural = Annotated[int, Range(0, math.inf)]
NotNegative = Annotated[float, Range(0, math.inf)]
Share = Annotated[float, Range(0, 1)]


def check_fields(part: Any) -> None:
    """Hold the fields of a frozen dataclass to their types and ranges, in its `__post_init__`: before anything else.

    Lists become tuples and numbers of numpy Python's own. Every float is finite, every int within 64 bits.

    Raises:
        ValueError: the message names the field, what it takes and what came.
    """
    for name, hint in field_types(type(part)).items():
        value = checked(getattr(part, name), hint, f"{type(part).__name__}.{name}")
        object.__setattr__(part, name, value)
        if dataclasses.is_dataclass(value) and not hasattr(value, "__post_init__"):  # as an initialisation
            check_fields(value)


_TYPES: dict[type, dict[str, Any]] = {}
"""Results of `field_types`, by class: annotations are resolved once."""


def field_types(cls: type) -> Mapping[str, Any]:
    """Return the annotation of each field of a dataclass."""
    if cls not in _TYPES:
        hints = typing.get_type_hints(cls, include_extras=True) if dataclasses.is_dataclass(cls) else {}
        _TYPES[cls] = {field.name: hints[field.name] for field in (dataclasses.fields(cls) if hints else ())}
    return _TYPES[cls]


def checked(value: Any, hint: Any, key: str, *, described: bool = False) -> Any:
    """Return the value of the field `key`, refused where it does not fit its annotation.

    Where it is `described`, parts come as plain data, as `recipe.describe` gives them.
    """
    value = _plain(value, hint)
    if not _fits(value, hint, described):
        came = json.dumps(value) if value is None or isinstance(value, bool) else reprlib.repr(value)
        most = ", and at most 2^62" * (type(value) is int and value > _LARGE)
        raise ValueError(f"{key}: expected {_in_words(hint)}{most}, got {came}")
    return value


def _plain(value: Any, hint: Any) -> Any:
    if isinstance(value, numbers.Number) and hasattr(value, "item"):
        return value.item()  # numpy's
    kinds = (hint, *typing.get_args(hint))
    if type(value) is int and float in kinds and int not in kinds and _is_finite(value):
        return float(value)
    takes_tuples = any(typing.get_origin(each) is tuple for each in kinds)
    return tuple(value) if isinstance(value, list) and takes_tuples else value


def _fits(value: Any, hint: Any, described: bool) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        bounds = [each for each in inner[1:] if isinstance(each, Range)]
        return _fits(value, inner[0], described) and all(each.low <= value <= each.high for each in bounds)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, each, described) for each in inner)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in inner)
    if origin in _SEQUENCES:
        kind = (tuple, list) if described or origin is tuple else collections.abc.Collection  # which can be read twice
        if not isinstance(value, kind) or isinstance(value, str):
            return False
        if len(inner) == 1 or inner[-1] is ...:
            return all(_fits(item, inner[0], described) for item in value)
        return len(value) == len(inner) and all(_fits(*pair, described) for pair in zip(value, inner, strict=True))
    if origin is collections.abc.Mapping:
        named = isinstance(value, Mapping) and not (described and "type" in value)
        return named and all(_fits(item, inner[1], described) for item in value.values())
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGE
    if hint in _PLAIN:
        return isinstance(value, hint)
    if isinstance(hint, type) and hint is not Any:  # a part of the recipe
        return isinstance(value, Mapping) and "type" in value if described else isinstance(value, hint)
    return True


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the largest float
        return False


def _in_words(hint: Any) -> str:
    """Return the values that a field takes."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return " ".join([_in_words(inner[0]), *(str(each) for each in inner[1:] if isinstance(each, Range))])
    if origin in (typing.Union, types.UnionType):
        return ", or ".join(dict.fromkeys(map(_in_words, inner)))
    if origin is Literal:
        return " or ".join(json.dumps(each) for each in inner)
    if origin in _SEQUENCES:
        several = len(inner) == 1 or inner[-1] is ...
        items = _in_words(inner[0]).removeprefix("a ") + "s" if several else " and ".join(map(_in_words, inner))
        return f"a list of {items}"
    if origin is collections.abc.Mapping:
        return "an object of names and values"
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and (fields := field_types(hint)):
        return f"the fields of {hint.__name__}, one by one ({', '.join(fields)})"
    return f'an object with the "type" of {getattr(hint, "__name__", hint)} and its fields'
