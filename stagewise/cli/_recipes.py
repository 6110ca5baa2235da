"""Recipes from the command line: a preset of a task and its changes, or what a run folder records."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stagewise._value_schedules import AbstractSchedule
from stagewise.cli._names import task_class, task_classes
from stagewise.cli._options import RecipeOptions
from stagewise.cli._settings import changed, check_fields, read_settings

if TYPE_CHECKING:
    from stagewise.recipe import Recipe


AS_IT_IS = RecipeOptions()


def recipe_of(task: str, changes: RecipeOptions) -> "Recipe":
    """Return the recipe of a task by its name, changed by the options."""
    from stagewise.presets import recipe_for

    cls, values = task_class(task), read_settings(changes.settings or [])
    fields = {
        key.removeprefix("task."): values.pop(key)
        for key in list(values)
        if key.startswith("task.") and key.count(".") == 1 and not isinstance(values[key], AbstractSchedule)
    }
    fields = check_fields(cls, fields, "task.")
    try:
        recipe = recipe_for(
            cls, changes.preset, seed=changes.seed or 0, n_heads=changes.heads, n_layers=changes.layers, **fields
        )
    except TypeError as reason:
        raise ValueError(f"{cls.__name__}: {reason}; give it with --set task.NAME=VALUE") from reason
    return changed(recipe, {**_of_training(changes), **values}, [*task_classes(), cls])


def recipe_of_run(folder: Path, tasks: Sequence[str], verb: str) -> "Recipe":
    """Return the recipe of a run folder, for a command that trains."""
    from stagewise.checkpoints.run_folder import RUN

    if folder.is_dir() and not (folder / RUN).exists():
        raise FileNotFoundError(
            f"{folder} is not a run folder: there is no {RUN} in it, and {verb} a training by the recipe there. Of "
            "checkpoints trained elsewhere `stagewise report`, `trajectory` and `llc` say what they show"
        )
    return recipe_in(folder, tasks=tasks)


def recipe_in(folder: Path, changes: RecipeOptions = AS_IT_IS, tasks: Sequence[str] = ()) -> "Recipe":
    """Return the recipe of a run folder or a record, changed by the options; `tasks` are written module:Class."""
    from stagewise.checkpoints.run_folder import RUN, read_run
    from stagewise.recipe import Recipe, rebuild

    preset_options = {name: getattr(changes, name) for name in ("preset", "seed", "heads", "layers")}
    if refused := [name for name, value in preset_options.items() if value is not None]:
        raise ValueError(
            f"--{refused[0]} is of a preset, and {folder} holds a run with a recipe of its own: name a task in the "
            "place of the folder, or change its fields with --set"
        )
    classes = task_classes(tasks)
    record = read_run(folder.parent, folder.name) if folder.is_file() else read_run(folder, RUN)
    try:
        recipe: Recipe = rebuild(record["recipe"], classes)
    except TypeError as reason:  # a field that this version does not have, or one that it lacks
        made_by = record.get("versions", {}).get("stagewise", "another version")
        raise ValueError(
            f"the recipe in {folder} was written by stagewise {made_by} ({reason}): use that one"
        ) from reason
    if not isinstance(recipe, Recipe):
        raise ValueError(f"{folder} records no recipe of a run: restore it, or train again in a new folder")
    return changed(recipe, {**_of_training(changes), **read_settings(changes.settings or [])}, classes)


def _of_training(changes: RecipeOptions) -> dict[str, object]:
    values: dict[str, object] = {}
    if changes.steps is not None:
        values["plan.steps"] = changes.steps
    if changes.config is not None:
        from stagewise.checkpoints._data_files import read_json

        values["architecture"] = read_json(changes.config, "give the fields of a HookedTransformerConfig by name")
    return values
