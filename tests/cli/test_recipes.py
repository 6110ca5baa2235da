"""Recipes from the command line: a preset and its changes, or what a run folder records."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from stagewise.cli._options import RecipeOptions
from stagewise.cli._recipes import recipe_in, recipe_of
from stagewise.presets import recipe_for
from stagewise.recipe import Recipe
from stagewise.tasks import MarkovChain


def test_without_options_it_is_the_tasks_first_preset() -> None:
    assert recipe_of("markov", RecipeOptions()) == recipe_for(MarkovChain)


def test_each_option_changes_its_own_field_and_no_other() -> None:
    base = recipe_of("markov", RecipeOptions())
    changed = recipe_of("markov", RecipeOptions(steps=7, settings=["plan.learning_rate=0.5", "task.importance=1.25"]))
    assert changed.plan == dataclasses.replace(base.plan, steps=7, save=None, learning_rate=0.5)
    assert isinstance(base.task, MarkovChain)
    assert changed.task == dataclasses.replace(base.task, importance=1.25)
    assert changed.architecture == base.architecture
    sized = recipe_of("markov", RecipeOptions(heads=2, layers=2)).architecture
    assert (sized.n_heads, sized.n_layers) == (2, 2)


def test_a_folder_gives_its_recipe_which_steps_and_settings_may_change(
    small_folder: Path, small_recipe: Recipe
) -> None:
    assert recipe_in(small_folder) == small_recipe
    longer = recipe_in(small_folder, RecipeOptions(steps=9, settings=["plan.clip=2"]))
    assert longer.plan == dataclasses.replace(small_recipe.plan, steps=9, save=None, clip=2.0)


@pytest.mark.parametrize("option", [{"preset": "full"}, {"seed": 0}, {"heads": 2}, {"layers": 1}], ids=str)
def test_what_only_a_preset_has_is_refused_for_a_folder(option: dict[str, Any], small_folder: Path) -> None:
    with pytest.raises(ValueError, match=f"--{next(iter(option))} is of a preset, and .* holds a run"):
        recipe_in(small_folder, RecipeOptions(**option))


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not valid JSON"), ("[1]", "holds a list, expected a JSON object: give the fields")],
)
def test_a_config_file_that_is_none_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=f"config.json {message}"):
        recipe_of("markov", RecipeOptions(config=tmp_path / "config.json"))


@pytest.mark.parametrize(
    "setting",
    [
        *(
            "plan.seeds=3",
            "task=3",
            "architecture=null",
            "plan.seeds.init=1.5",
            "plan.momentum=abc",
            "plan.seeds.data=-1",
        ),
        *("plan.weight_decay=-Infinity", "plan.learning_rate=Infinity", "plan.learning_rate=-1", "plan.steps=1e400"),
        *("architecture.config.n_layers=0", "architecture.config.d_model=-3", "architecture.init=3", "plan=[]"),
        *(
            "architecture.config=3",
            "task.spans=[]",
            "task.d_vocab=null",
            "plan.save=[1,null]",
            f"plan.steps=1{'0' * 30}",
        ),
    ],
)
def test_a_value_that_no_run_can_have_is_refused_in_a_line(setting: str) -> None:
    with pytest.raises(ValueError, match=r"^(--set|the model config|[A-Z]\w+\.|spans|MarkovChain)") as refused:
        recipe_of("markov", RecipeOptions(settings=[setting]))
    assert "\n" not in str(refused.value)
