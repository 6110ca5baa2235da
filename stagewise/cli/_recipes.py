"""Recipes from the command line: a preset of a task and its changes, or what a run folder records."""

import ast
import contextlib
import dataclasses
import json
import re
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import stagewise
from stagewise import checkpoints
from stagewise.cli._names import task_class, task_classes
from stagewise.cli._options import RecipeOptions
from stagewise.fields import checked, field_types
from stagewise.own_code import import_named
from stagewise.plain_text import instead_of
from stagewise.value_schedules import AbstractSchedule, Ramp, Shuffled, Steps

SCHEDULES = {cls.__name__: cls for cls in (Ramp, Steps, Shuffled)}
"""Functions of the step that a value may call, as in Ramp(0.8, 0, start=0, stop=2000)."""

_COMMA = re.compile(r",(?=(?:[^()]|\((?:[^()]|\([^()]*\))*\))*$)")
"""Between values: none of those within the brackets of a schedule."""

RELATIONS = "task.relations"
"""The field of `tasks.Tokens` that may name functions of one's own."""

AS_IT_IS = RecipeOptions()


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
    """Return a value from JSON, lists as tuples, a schedule as Python writes it, @FILE as its JSON, or the text."""
    if text.startswith("@"):
        return _tuples(checkpoints.read_json(Path(text[1:]), "give the fields of a HookedTransformerConfig by name"))
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


def changed(recipe: "stagewise.Recipe", values: Mapping[str, Any], classes: Sequence[type] = ()) -> "stagewise.Recipe":
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
    rebuilt: stagewise.Recipe = rebuild(described, [*classes, type(recipe.task), type(recipe.architecture.init)])
    return rebuilt


def _walk(recipe: "stagewise.Recipe", key: str, path: Sequence[str]) -> Any:
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


def recipe_of(task: str, changes: RecipeOptions) -> "stagewise.Recipe":
    """Return the recipe of a task by its name, changed by the options."""
    cls, values = task_class(task), _fields_of(changes)
    own = [
        key
        for key, value in values.items()
        if re.fullmatch(r"task\.[^.]*", key) and not isinstance(value, AbstractSchedule)
    ]
    fields = check_fields(cls, {key.removeprefix("task."): values.pop(key) for key in own}, "task.")
    sizes: dict[str, Any] = {"seed": changes.seed or 0, "n_heads": changes.heads, "n_layers": changes.layers}
    try:
        recipe = stagewise.recipe_for(cls, changes.preset, **sizes, **fields)
    except TypeError as reason:
        raise ValueError(f"{cls.__name__}: {reason}; give it with --set task.NAME=VALUE") from reason
    return changed(recipe, values, [*task_classes(), cls])


def recipe_of_run(folder: Path, tasks: Sequence[str], verb: str) -> "stagewise.Recipe":
    """Return the recipe of a run folder, for a command that trains."""
    if folder.is_dir() and not (folder / checkpoints.RUN).exists():
        raise FileNotFoundError(
            f"{folder} is not a run folder: there is no {checkpoints.RUN} in it, and {verb} a training by the recipe "
            "there. Of checkpoints trained elsewhere `stagewise report` says what they show"
        )
    return recipe_in(folder, tasks=tasks)


def recipe_in(folder: Path, changes: RecipeOptions = AS_IT_IS, tasks: Sequence[str] = ()) -> "stagewise.Recipe":
    """Return the recipe of a run folder or a record, changed by the options; `tasks` are written module:Class."""
    from stagewise.recipe import rebuild

    if refused := [name for name in ("preset", "seed", "heads", "layers") if getattr(changes, name) is not None]:
        raise ValueError(
            f"--{refused[0]} is of a preset, and {folder} holds a run with a recipe of its own: name a task in the "
            "place of the folder, or change its fields with --set"
        )
    classes = task_classes(tasks)
    record = checkpoints.read_run(*(folder.parent, folder.name) if folder.is_file() else (folder,))
    try:
        recipe: stagewise.Recipe = rebuild(record["recipe"], classes)
    except TypeError as reason:  # a field that this version does not have, or one that it lacks
        writer = f"stagewise {record.get('versions', {}).get('stagewise', 'another version')}"
        raise ValueError(f"the recipe in {folder} was written by {writer} ({reason}): use that one") from reason
    if not isinstance(recipe, stagewise.Recipe):
        raise ValueError(f"{folder} records no recipe of a run: restore it, or train again in a new folder")
    return changed(recipe, _fields_of(changes), classes)


def _fields_of(changes: RecipeOptions) -> dict[str, Any]:
    steps = {} if changes.steps is None else {"plan.steps": changes.steps}
    return {**steps, **read_settings(changes.settings or [])}
