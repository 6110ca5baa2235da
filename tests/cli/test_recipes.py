"""Recipes from the command line: a preset and its changes, or what a run folder records."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from stagewise import Ramp
from stagewise.cli._options import RecipeOptions
from stagewise.cli._recipes import changed, check_fields, read_axes, read_settings, recipe_in, recipe_of
from stagewise.papers.tasks import WikiText
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
        recipe_of("markov", RecipeOptions(settings=[f"architecture=@{tmp_path}/config.json"]))


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


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("plan.steps", "abc", "expected a whole number of at least 1, got 'abc'"),
        ("plan.steps", 6.5, "expected a whole number of at least 1, got 6.5"),
        ("plan.steps", True, "expected a whole number of at least 1, got true"),
        ("task", 3, 'expected an object with the "type" of AbstractTask and its fields, got 3'),
        ("plan.seeds", 3, "expected the fields of Seeds, one by one (init, data, evaluation), got 3"),
        ("plan.seeds.init", 1.5, "expected a whole number of at least 0, got 1.5"),
        ("architecture", None, "expected the fields of Architecture, one by one (config, init, huggingface)"),
        ("plan.learning_rate", "inf", "expected a finite number of at least 0, got 'inf'"),
        ("plan.learning_rate", float("inf"), "expected a finite number of at least 0, got inf"),
        ("plan.learning_rate", None, "expected a finite number of at least 0, got null"),
        ("plan.optimiser", "adam", 'expected "adamw" or "sgd", got \'adam\''),
        ("plan.save", "all", "expected a list of whole numbers, or null, got 'all'"),
        ("plan.save", (1, "2"), "expected a list of whole numbers, or null"),
        ("plan.rates", (1,), "expected an object of names and values"),
        ("architecture.config.n_heads", "two", "expected a whole number, got 'two'"),
        ("plan.zoom", 2, "the recipe has no such field; there are batch_size, clamps, clip"),
        ("zoom.steps", 2, "the recipe has no such field; there are architecture, plan, schedules, task"),
        ("plan.steps.more", 2, "the recipe has no such field"),
    ],
)
def test_a_value_of_another_type_is_refused_in_words(key: str, value: Any, message: str, small_recipe: Recipe) -> None:
    with pytest.raises(ValueError, match=r"^--set " + key.replace(".", r"\.")) as refused:
        changed(small_recipe, {key: value})
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_values_of_the_right_type_change_the_recipe_and_nothing_else(small_recipe: Recipe) -> None:
    values = {
        "plan.seeds.init": 3,
        "plan.learning_rate": 1,
        "plan.save": (2,),
        "plan.clip": None,
        "plan.rates": {"*": 0.1},
    }
    recipe = changed(small_recipe, values)
    assert (recipe.plan.seeds.init, recipe.plan.learning_rate, recipe.plan.clip) == (3, 1, None)
    assert (recipe.plan.saved_steps, dict(recipe.plan.rates)) == ((0, 2, 6), {"*": 0.1})
    assert (recipe.task, recipe.architecture) == (small_recipe.task, small_recipe.architecture)


def test_a_model_config_takes_fields_that_it_does_not_have_yet(small_recipe: Recipe) -> None:
    assert changed(small_recipe, {"architecture.config.eps": 1e-6}).architecture.config["eps"] == 1e-6


@pytest.mark.parametrize(
    ("task", "field", "value", "message"),
    [
        (MarkovChain, "spans", "2", "expected a list of whole numbers, got '2'"),
        (MarkovChain, "spans", (2, 1.5), "expected a list of whole numbers"),
        (MarkovChain, "importance", "high", "expected a finite number"),
        (MarkovChain, "reverse", 1, "expected true or false, got 1"),
        (MarkovChain, "zoom", 1, "MarkovChain has no such field; there are d_vocab, spans"),
        (WikiText, "data", 3, "expected text, or null, got 3"),
        (WikiText, "tokenizer", "bytes", 'expected "plain" or "basic_english" or "bpe"'),
        (WikiText, "contexts", True, "WikiText has no such field"),
    ],
)
def test_fields_of_a_task_are_checked_before_it_is_made(task: type, field: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r"^--set task\.") as refused:
        check_fields(task, {field: value}, "task.")
    assert message in str(refused.value)


def test_a_field_of_what_another_setting_has_replaced_is_refused(small_recipe: Recipe) -> None:
    with pytest.raises(ValueError, match=r"^--set architecture\.config\.eps: another --set has replaced"):
        changed(small_recipe, {"architecture": {}, "architecture.config.eps": 1e-6})


def test_a_schedule_stands_beside_the_field_and_a_plain_value_takes_its_place() -> None:
    ramp = recipe_of("recall", RecipeOptions(settings=["task.p=Ramp(0.8, 0, start=0, stop=2000)"]))
    tasks: list[Any] = [ramp.task, ramp.at(0).task, ramp.at(1000).task]
    assert [task.p for task in tasks] == [0.0, 0.8, 0.4]
    assert changed(ramp, {"plan.learning_rate": 0.1}).schedules == ramp.schedules
    assert changed(ramp, {"task.p": 0.2}) == recipe_of("recall", RecipeOptions(settings=["task.p=0.2"]))
    with pytest.raises(ValueError, match=r"'Ramp\(0.8\)' is no schedule, as Ramp\(0.8, 0, start=0, stop=2000\) is"):
        recipe_of("recall", RecipeOptions(settings=["task.p=Ramp(0.8)"]))
    with pytest.raises(ValueError, match="is no schedule, as"):
        recipe_of("recall", RecipeOptions(settings=["task.p=Ramp(__import__('os').getpid(), 0, start=0, stop=1)"]))


def test_another_length_saves_other_steps_by_whichever_option() -> None:
    recipe = recipe_of("recall", RecipeOptions())
    by_option = recipe_of("recall", RecipeOptions(steps=200))
    by_setting = recipe_of("recall", RecipeOptions(settings=["plan.steps=200"]))
    assert by_option == by_setting != recipe
    assert by_option.plan.saved_steps[-1] == 200
    both = recipe_of("recall", RecipeOptions(steps=200, settings=["plan.save=[3]"]))
    assert both.plan.saved_steps == (0, 3, 200)


def test_a_value_is_read_as_json_as_a_schedule_or_else_as_text() -> None:
    texts = ["task.spans=[2,2]", "plan.optimiser=sgd", "task.p=Ramp(0.8, 0, start=0, stop=2000)"]
    ramp = Ramp(0.8, 0, start=0, stop=2000)
    assert read_settings(texts) == {"task.spans": (2, 2), "plan.optimiser": "sgd", "task.p": ramp}


def test_brackets_and_schedules_are_one_value_of_an_axis() -> None:
    axes = read_axes(["plan.seeds.init=0,1", "task.spans=[2,2]", "task.p=0,Steps((0.8,0),(9,))"])
    assert axes == {
        "plan.seeds.init": ["0", "1"],
        "task.spans": ["[2,2]"],
        "task.p": ["0", "Steps((0.8,0),(9,))"],
    }
