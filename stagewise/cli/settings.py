"""Fields of a recipe from `--set key=value`: read, held to their types, and put in place."""

import collections.abc
import json
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stagewise.recipe import Recipe

SEQUENCES = (tuple, list, collections.abc.Sequence, collections.abc.Iterable)
PLAIN = {int: "a whole number", float: "a finite number", str: "text", bool: "true or false", type(None): "null"}


def read_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Read key=value, the value as JSON or else as text.

    Raises:
        ValueError: one has no "=".

    >>> read_settings(["task.spans=[2,2]", "plan.optimiser=sgd"])
    {'task.spans': (2, 2), 'plan.optimiser': 'sgd'}
    """
    return dict(map(_setting, texts))


def _setting(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator:
        raise ValueError(f"--set takes key=value, got {text!r}")
    return key, read_value(value)


def read_value(text: str) -> Any:
    """Return a value from JSON, lists as tuples, or the text itself."""
    try:
        return _tuples(json.loads(text))
    except json.JSONDecodeError:
        return text


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def check_fields(cls: type, values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the values, and refuse those of fields that a dataclass does not have, or of another type than theirs.

    Args:
        cls: the dataclass.
        values: by field.
        prefix: what stands before the field in a message, as in "task.".

    Raises:
        ValueError: the message names the field, what it takes and what came.
    """
    hints = field_types(cls)
    for name in values:
        if name not in hints:
            raise ValueError(f"--set {prefix}{name}: {cls.__name__} has no such field; there are {', '.join(hints)}")
    return {name: _checked(value, hints[name], f"{prefix}{name}") for name, value in values.items()}


def field_types(cls: type) -> dict[str, Any]:
    """Return the annotation of each field of a dataclass."""
    hints = typing.get_type_hints(cls)
    return {
        name: hints[name] for name in getattr(cls, "__dataclass_fields__", {}) if not _is_class_variable(hints[name])
    }


def _is_class_variable(hint: Any) -> bool:
    return hint is typing.ClassVar or typing.get_origin(hint) is typing.ClassVar


def changed(recipe: "Recipe", values: Mapping[str, Any], classes: Sequence[type] = ()) -> "Recipe":
    """Return the recipe with other values of fields, each by its path, as in "plan.seeds.init".

    Args:
        recipe: what to change.
        values: by path.
        classes: of the tasks in it.

    Raises:
        ValueError: there is no such field, or the value is not of its type or out of range.
    """
    from stagewise.recipe import describe, rebuild

    described = describe(recipe)
    for key, value in values.items():
        *path, last = key.split(".")
        part, node = _walk(recipe, key, path), described
        for name in path:
            node = node[name]
        node[last] = describe(_checked(value, _type_of(part, key, last), key))
    rebuilt: Recipe = rebuild(described, [*classes, type(recipe.task), type(recipe.architecture.init)])
    return rebuilt


def _walk(recipe: "Recipe", key: str, path: Sequence[str]) -> Any:
    part: Any = recipe
    for name in path:
        if name not in _names(part):
            raise ValueError(f"--set {key}: the recipe has no such field; there are {', '.join(_names(part) or path)}")
        part = part[name] if isinstance(part, Mapping) else getattr(part, name)
    return part


def _names(part: Any) -> list[str]:
    return sorted(part if isinstance(part, Mapping) else field_types(type(part)))


def _type_of(part: Any, key: str, name: str) -> Any:
    if isinstance(part, Mapping):  # of a model config any field can be set, those that are there to their own type
        known = part.get(name)
        return typing.Any if known is None else typing.Any if isinstance(known, Mapping | tuple) else type(known)
    hints = field_types(type(part))
    if name not in hints:
        raise ValueError(f"--set {key}: the recipe has no such field; there are {', '.join(sorted(hints))}")
    return hints[name]


def _checked(value: Any, hint: Any, key: str) -> Any:
    """Return the value, a whole number as a float where only floats are taken."""
    if not _fits(value, hint):
        came = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
        raise ValueError(f"--set {key}: expected {in_words(hint)}, got {came}")
    kinds = (hint, *typing.get_args(hint))
    return float(value) if type(value) is int and float in kinds and int not in kinds else value


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is typing.Literal:
        return any(value == each and type(value) is type(each) for each in inner)
    if origin in SEQUENCES:
        return isinstance(value, tuple) and _items_fit(value, inner)
    if origin is collections.abc.Mapping:
        return (
            isinstance(value, Mapping) and "type" not in value and all(_fits(item, inner[1]) for item in value.values())
        )
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint in PLAIN:
        return isinstance(value, hint)
    if isinstance(hint, type) and hint is not Any:  # a part of the recipe, which plain data describe
        return isinstance(value, Mapping) and "type" in value
    return True


def _items_fit(value: Sequence[Any], inner: Sequence[Any]) -> bool:
    if len(inner) == 1 or inner[-1] is ...:
        return all(_fits(item, inner[0]) for item in value)
    return len(value) == len(inner) and all(map(_fits, value, inner))


def in_words(hint: Any) -> str:
    """Return what a field takes.

    >>> in_words(tuple[int, ...] | None)
    'a list of whole numbers, or null'
    """
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return ", or ".join(dict.fromkeys(map(in_words, inner)))
    if origin is typing.Literal:
        return " or ".join(json.dumps(each) for each in inner)
    if origin in SEQUENCES:
        several = len(inner) == 1 or inner[-1] is ...
        items = in_words(inner[0]).removeprefix("a ") + "s" if several else " and ".join(map(in_words, inner))
        return f"a list of {items}"
    if origin is collections.abc.Mapping:
        return "an object of names and values"
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, type) and (fields := field_types(hint)):
        return f"the fields of {hint.__name__}, one by one ({', '.join(fields)})"
    return f'an object with the "type" of {getattr(hint, "__name__", hint)} and its fields'
