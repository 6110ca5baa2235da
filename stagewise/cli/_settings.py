"""Fields of a recipe from `--set key=value`: read, held to their types, and put in place."""

import ast
import contextlib
import dataclasses
import json
import re
import typing
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stagewise._value_schedules import AbstractSchedule, Cycle, Ramp, Shuffled, Steps
from stagewise.fields import checked, field_types
from stagewise.own_code import import_named
from stagewise.plain_text import instead_of

if TYPE_CHECKING:
    from stagewise.recipe import Recipe

SCHEDULES = {cls.__name__: cls for cls in (Ramp, Steps, Cycle, Shuffled)}
"""Functions of the step that a value may call, as in Ramp(0.8, 0, start=0, stop=2000)."""

_COMMA = re.compile(r",(?=(?:[^()]|\((?:[^()]|\([^()]*\))*\))*$)")
"""Between values: none of those within the brackets of a schedule."""

RELATIONS = "task.relations"
"""The field of `tasks.Tokens` that may name functions of one's own."""


def read_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Read key=value, the value as JSON, as a schedule or else as text."""
    return dict(map(_setting, texts))


def read_axes(settings: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of each field, as texts; a list or an object in brackets is one value, and so is a schedule."""
    axes: dict[str, list[str]] = {}
    for text in settings:
        key, separator, values = text.partition("=")
        if not separator or not values:
            raise ValueError(f"--set takes key=value,value,..., got {text!r}")
        if key in axes:
            raise ValueError(f"--set {key} is given twice: write all its values in one, as in {key}=0,1")
        axes[key] = [values] if values[0] in "[{" else _COMMA.split(values)
    return axes


def _setting(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator:
        raise ValueError(f"--set takes key=value, got {text!r}")
    read = read_value(value)
    for name in [read["type"]] if isinstance(read, Mapping) and "type" in read else read if key == RELATIONS else ():
        if ":" in str(name):
            import_named(str(name))  # a person names it here, and not a file
    return key, read


def read_value(text: str) -> Any:
    """Return a value from JSON, lists as tuples, a schedule as Python writes it, or the text itself."""
    with contextlib.suppress(json.JSONDecodeError, RecursionError):  # brackets within brackets, without end
        return _tuples(json.loads(text))
    if (name := text.partition("(")[0]) not in SCHEDULES:
        return text
    try:
        call: Any = ast.parse(text.strip(), mode="eval").body
        given = [ast.literal_eval(each) for each in call.args]
        return SCHEDULES[name](*given, **{str(each.arg): ast.literal_eval(each.value) for each in call.keywords})
    except (AttributeError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError) as reason:
        example = "Ramp(0.8, 0, start=0, stop=2000)"
        raise ValueError(f"{text!r:.200} is no schedule, as {example} is: {reason!s:.200}") from reason


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def check_fields(cls: type, values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the values, and refuse those of fields that a dataclass does not have, or of another type than theirs."""
    hints = field_types(cls)
    for name in values:
        if name not in hints:
            raise ValueError(f"--set {prefix}{name}: {cls.__name__} has no such field{instead_of(name, hints)}")
    given = values.items()
    return {name: checked(value, hints[name], f"--set {prefix}{name}", described=True) for name, value in given}


def changed(recipe: "Recipe", values: Mapping[str, Any], classes: Sequence[type] = ()) -> "Recipe":
    """Return the recipe with other values of fields, each by its path, as in "plan.seeds.init"."""
    from stagewise.recipe import describe, rebuild

    if (steps := values.get("plan.steps", recipe.plan.steps)) != recipe.plan.steps and isinstance(steps, int):
        # The steps to save, and the end of the rate's plan, are those of another length.
        cooldown = recipe.plan.cooldown * steps // recipe.plan.steps
        values = {"plan.save": None, "plan.cooldown": cooldown, **values}
    schedules = {key: each for key, each in (recipe.schedules or {}).items() if key not in values}
    schedules |= {key: each for key, each in values.items() if isinstance(each, AbstractSchedule)}
    described = describe(dataclasses.replace(recipe, schedules=None)) | {"schedules": describe(schedules or None)}
    for key, value in values.items():
        if key in schedules:
            continue
        *path, last = key.split(".")
        part, node = _walk(recipe, key, path), described
        for name in path:
            if name not in node:
                raise ValueError(f"--set {key}: another --set has replaced what this field belongs to")
            node = node[name]
        node[last] = describe(checked(value, _type_of(part, key, last), f"--set {key}", described=True))
    rebuilt: Recipe = rebuild(described, [*classes, type(recipe.task), type(recipe.architecture.init)])
    return rebuilt


def _walk(recipe: "Recipe", key: str, path: Sequence[str]) -> Any:
    part: Any = recipe
    for name in path:
        if name not in _names(part):
            raise ValueError(f"--set {key}: the recipe has no such field{instead_of(name, _names(part) or path)}")
        part = part[name] if isinstance(part, Mapping) else getattr(part, name)
    return part


def _names(part: Any) -> list[str]:
    return sorted(part if isinstance(part, Mapping) else field_types(type(part)))


def _type_of(part: Any, key: str, name: str) -> Any:
    if isinstance(part, Mapping):  # of a model config any field can be set, those that are there to their own type
        value = part.get(name)
        return typing.Any if value is None or isinstance(value, Mapping | tuple | list) else type(value)
    hints = field_types(type(part))
    if name not in hints:
        raise ValueError(f"--set {key}: the recipe has no such field{instead_of(name, sorted(hints))}")
    if hints[name] is not Any:
        return hints[name]
    value = getattr(part, name)  # an architecture, or a config: the fields of one will do
    return Mapping[str, Any] if isinstance(value, Mapping) else type(value) | Mapping[str, Any]
