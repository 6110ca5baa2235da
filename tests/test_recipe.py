"""Recipes: checked when made, described as plain JSON, rebuilt the same."""

import dataclasses
import json
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from stagewise import architectures, models
from stagewise.architecture import Architecture
from stagewise.architectures import OneHotInit
from stagewise.init import GaussianInit
from stagewise.papers.scan_and_snap.yz_hooked import yz
from stagewise.papers.tasks import SparseRegression
from stagewise.recipe import Recipe, Seeds, TrainPlan, describe, differences, rebuild
from stagewise.schedules import linear, logarithmic
from stagewise.tasks import MarkovChain, Windows
from stagewise.value_schedules import AbstractSchedule, Ramp, Shuffled, Steps
from tests.conftest import unchecked_types
from tests.own_model import own_config, own_model

TASK = MarkovChain(d_vocab=4, spans=(1, 2), length=3, lag_weights=None, n_sequences=None)

RECIPES = {
    "minimal": Recipe(TASK, architectures.minimal(4, TASK.n_ctx, init=OneHotInit("xavier", "xavier"))),
    "full": Recipe(TASK, architectures.full(4, TASK.n_ctx), TrainPlan(steps=5, rates={"*.W_Q": 0.1}, clip=None)),
    "windows": Recipe(Windows(TASK, 2), architectures.full(6, 9), TrainPlan(seeds=Seeds(1, 2, 3))),
    "plain config": Recipe(
        TASK,
        {"n_layers": 2, "d_model": 8, "d_head": 4, "n_ctx": 9, "d_vocab": 9, "act_fn": "gelu"},
    ),
    "schedules": Recipe(
        TASK,
        architectures.full(4, TASK.n_ctx),
        schedules={
            "task.importance": Steps((1.5, Ramp(1.0, 2.0, start=3, stop=7)), (3,)),
            "plan.batch_size": Ramp(8, 16, start=0, stop=4),
            "plan.draw": Shuffled(2, 9),
            "plan.weight_decay": Steps((0.0, 0.1, 0.0, 0.1), (2, 4, 6)),
        },
    ),
}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES.keys())
def test_a_recipe_comes_back_from_its_json(recipe: Recipe) -> None:
    written = json.loads(json.dumps(describe(recipe)))
    assert rebuild(written, [MarkovChain, Windows]) == recipe
    assert not differences(describe(recipe), written)


def test_a_class_that_is_not_known_is_named() -> None:
    with pytest.raises(ValueError, match=r"made with MarkovChain, which is not known here; known: .*GaussianInit"):
        rebuild(describe(RECIPES["minimal"]))


@dataclasses.dataclass(frozen=True)
class Elsewhere(Windows):
    """A task that is not of the library."""


def test_a_class_from_elsewhere_is_recorded_with_its_module_and_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, Elsewhere.__module__, sys.modules[__name__])
    described = describe(Elsewhere(TASK, 2))
    assert described["type"] == f"{Elsewhere.__module__}:Elsewhere"
    assert described["task"]["type"] == "MarkovChain"
    assert rebuild(described, [MarkovChain]) == Elsewhere(TASK, 2)


def test_a_class_of_an_experiment_is_recorded_with_its_module_and_found_again() -> None:
    described = describe(yz(4, 5))
    assert described["init"]["type"] == "stagewise.papers.scan_and_snap.yz_hooked:YZInit"
    assert rebuild(described) == yz(4, 5)


def test_a_class_that_moved_is_taken_from_those_handed_over() -> None:
    assert rebuild({"type": "old_place:Elsewhere", "task": describe(TASK), "context": 2}, [MarkovChain, Elsewhere])
    with pytest.raises(ValueError, match=r"made with Elsewhere of the module old_place, which is not imported here"):
        rebuild({"type": "old_place:Elsewhere", "context": 2})


@pytest.mark.parametrize("name", ["subprocess:Popen", "os:system", "stagewise.task:Batch", "json:nothing"])
def test_run_json_makes_nothing_but_tasks_and_initialisations(name: str) -> None:
    with pytest.raises(ValueError, match="expected a subclass of AbstractTask or AbstractInit called"):
        rebuild({"type": name})


def test_step_zero_and_the_last_are_always_saved() -> None:
    assert TrainPlan(steps=9, save=()).saved_steps == (0, 9)
    assert TrainPlan(steps=9, save=[4, 4, 9, 2]).saved_steps == (0, 2, 4, 9)
    assert TrainPlan(steps=1).saved_steps == (0, 1)


@pytest.mark.parametrize("steps", [1, 7, 60, 61, 900, 100_000])
def test_the_default_saves_about_sixty_steps_and_the_first_ones_log_spaced(steps: int) -> None:
    saved = TrainPlan(steps=steps).saved_steps
    assert (saved[0], saved[-1]) == (0, steps)
    assert len(saved) <= 60 + 60 + 30
    assert list(saved) == sorted(set(saved))
    assert steps < 60 or {1, 2}.issubset(saved) or steps < 180


def test_schedules_of_numpy_numbers_can_be_written() -> None:
    plan = TrainPlan(steps=20, save=frozenset(np.array([3, 5]).tolist()) | linear(8, 20) | logarithmic(1, 20))
    assert json.loads(json.dumps(describe(plan)))["save"] == [0, 1, 3, 5, 8, 10, 16, 20]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, r"TrainPlan.steps: expected a whole number of at least 1, got 0"),
        ({"batch_size": 0}, "TrainPlan.batch_size: expected a whole number of at least 1, got 0"),
        ({"steps": 9, "save": [10]}, r"saves lie between step 0 and step 9 \(`steps`\), got \[10\]"),
        ({"steps": 9, "save": range(10, 20)}, r"step 9 .* got \[10, 11, 12\] and 7 others"),
        ({"save": [-1]}, r"saves lie between step 0 .* got \[-1\]"),
        ({"clip": 0.0}, "clip must be positive, or None for no clipping, got 0.0"),
        ({"clip": -1.0}, "clip must be positive"),
        ({"warmup": -1}, "TrainPlan.warmup: expected a whole number of at least 0, got -1"),
        ({"cooldown": -2}, "TrainPlan.cooldown: expected a whole number of at least 0, got -2"),
    ],
    ids=str,
)
def test_a_plan_out_of_range_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrainPlan(**changes)


def test_an_unknown_optimiser_is_refused() -> None:
    # The run-time type check of the tests refuses it first; a user without it gets the ValueError.
    with pytest.raises((ValueError, TypeError), match=r"adamw.*sgd"):
        TrainPlan(optimiser="adam")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_ctx": 4}, "MarkovChain needs 5 positions, the model config has n_ctx = 4: raise n_ctx to 5"),
        ({"d_vocab": 3}, "MarkovChain needs 4 tokens, the model config has d_vocab = 3"),
    ],
    ids=str,
)
def test_a_model_too_small_for_the_task_is_refused(changes: dict[str, Any], message: str) -> None:
    config = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 5, "d_vocab": 4, **changes}
    with pytest.raises(ValueError, match=message):
        Recipe(TASK, Architecture(config))


SIZES = {"n_layers": 2, "d_model": 16, "n_heads": 4, "act_fn": "gelu"}


def test_a_config_has_the_sizes_of_the_task_where_it_names_none() -> None:
    small = Recipe(TASK, SIZES).architecture
    assert small.config == {**SIZES, "d_head": 4, "d_vocab": TASK.d_vocab, "n_ctx": TASK.n_ctx}
    assert Recipe(TASK, {**SIZES, "n_ctx": 40, "d_vocab": 30}).architecture.config["n_ctx"] == 40
    regression = SparseRegression()
    outputs = regression.sample(1, 0).targets.shape[-1]
    assert Recipe(regression, SIZES).architecture.n_outputs == outputs


def test_a_hooked_transformer_config_and_its_dict_train_the_model_that_they_describe() -> None:
    cfg = own_config(**SIZES, d_head=4, n_ctx=TASK.n_ctx, initializer_range=0.02)
    recipe = Recipe(TASK, cfg)
    assert describe(recipe) == describe(Recipe(TASK, cfg.to_dict())) == json.loads(json.dumps(describe(recipe)))
    assert recipe.architecture.init == GaussianInit(0.02)
    cfg.d_vocab = cfg.d_vocab_out = TASK.d_vocab
    state = models.weights(models.build(recipe.architecture, seed=3))
    own = own_model(cfg)
    models.load(own, state)
    tokens = TASK.sample(4, 0).tokens
    with torch.no_grad():
        torch.testing.assert_close(own(tokens), models.build(recipe.architecture, seed=3)(tokens))


def test_a_hugging_face_config_is_an_architecture_of_its_own() -> None:
    from transformers import GPT2Config

    config = GPT2Config(n_layer=1, n_head=2, n_embd=8, n_positions=9, vocab_size=4)
    assert Recipe(TASK, config).architecture == Recipe(TASK, config.to_dict()).architecture == Architecture(config)
    assert Architecture(config).huggingface is not None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"init_mode": "xavier_normal"}, "init_mode = 'xavier_normal', and weights start here from its default"),
        ({"act_fn": len}, "the config's act_fn is no plain data, as run.json holds it"),
        ({"d_model": 18}, "d_model = 18 is no multiple of n_heads = 4: give d_head"),
    ],
    ids=str,
)
def test_a_field_that_is_not_covered_is_named_in_a_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        Recipe(TASK, {**SIZES, **changes})
    assert len(str(raised.value).splitlines()) == 1


def test_how_a_config_was_run_is_decided_elsewhere_and_said_so() -> None:
    with pytest.warns(UserWarning, match=r"seed = 7, device = cuda of the model config is not taken: plan.seeds.init"):
        recipe = Recipe(TASK, {**SIZES, "seed": 7, "device": "cuda"})
    assert not {"seed", "device"} & recipe.architecture.config.keys()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Recipe(TASK, {**SIZES, "seed": 7, "dtype": torch.float32}, TrainPlan(seeds=Seeds(init=7)))


def test_what_is_no_config_is_named_with_what_is() -> None:
    model = models.build(architectures.full(4, TASK.n_ctx))
    for given, message in ((3, "got int: 3"), ("gpt2", "got str: 'gpt2'"), (model, r"got \w+: give its .cfg")):
        with pytest.raises(ValueError, match=f"a model's config is a HookedTransformerConfig.*; {message}"):
            Recipe(TASK, given)


def test_differences_name_every_field_that_differs() -> None:
    recipe = RECIPES["full"]
    other = dataclasses.replace(
        recipe,
        task=dataclasses.replace(TASK, importance=2.0),
        plan=dataclasses.replace(recipe.plan, batch_size=3, seeds=Seeds(init=5)),
    )
    assert [*map(str, differences(describe(other), describe(recipe)))] == [
        "plan.batch_size: 3 requested, 512 on disk",
        "plan.seeds.init: 5 requested, 0 on disk",
        "task.importance: 2.0 requested, 1.7 on disk",
    ]


def test_long_lists_that_differ_within_are_written_whole() -> None:
    recorded = [*range(5), 7, 8, 9, 10]
    (line,) = differences({"save": [*range(6), 8, 9, 10]}, {"save": recorded})
    assert str(line) == "save: [0, 1, 2, 3, 4, 5, 8, 9, 10] requested, [0, 1, 2, 3, 4, 7, 8, 9, 10] on disk"


def test_an_update_is_made_by_what_schedules_say_at_its_step() -> None:
    recipe = RECIPES["schedules"]
    now = recipe.at(5)
    assert (now.task, now.plan.batch_size) == (dataclasses.replace(TASK, importance=1.5), 16)
    assert (recipe.at(1).task, recipe.at(1).plan.batch_size) == (dataclasses.replace(TASK, importance=1.5), 10)
    assert [recipe.at(step).plan.weight_decay for step in range(5)] == [0.0, 0.0, 0.1, 0.1, 0.0]
    draw = Shuffled(2, 9).at(5)
    assert torch.equal(recipe.batches()(5).tokens, now.task.stream(0)(draw, 16).tokens)
    assert recipe.task == TASK
    assert recipe.at(5) is recipe.at(5)  # every update asks several times


@pytest.mark.parametrize(
    ("path", "schedule", "message"),
    [
        (
            "plan.steps",
            Steps((1, 2), (3,)),
            "plan.steps stays as it is in training: what changes is a field of the task",
        ),
        ("task", Steps((1,), ()), "task stays as it is in training"),
        ("task.zoom", Steps((1, 2), (3,)), "task.zoom: the recipe has no such field; there are d_vocab"),
        ("task.importance", Ramp(1.5, -1.0, start=2, stop=9), "schedules, at step 9: .*importance"),
        ("plan.learning_rate", Steps((0.1, "fast"), (3,)), "schedules, at step 3: plan.learning_rate: expected"),
        ("task.length", Steps((3, 2), (7,)), "the task has .* and by its schedules .* at step 7: leave its size"),
    ],
)
def test_a_schedule_of_what_cannot_change_is_refused(path: str, schedule: AbstractSchedule, message: str) -> None:
    with unchecked_types(), pytest.raises(ValueError, match=message):
        dataclasses.replace(RECIPES["full"], schedules={path: schedule})


def test_a_record_names_no_schedule_but_those_of_the_library() -> None:
    described = describe(RECIPES["schedules"])
    for name in ("subprocess:Popen", "Popen", "stagewise.tasks:MarkovChain"):
        planted = {**described, "schedules": {"task.importance": {"type": name}}}
        with (
            unchecked_types(),
            pytest.raises(ValueError, match=r"not known here|a subclass|expected an object"),
        ):
            rebuild(planted, [MarkovChain])


def test_a_task_that_a_package_of_the_library_adds_is_recorded_by_its_name_alone() -> None:
    described = describe(SparseRegression(d=3))
    assert described["type"] == "SparseRegression"
    assert rebuild(described) == SparseRegression(d=3)
    moved = {**described, "type": "stagewise.papers.tasks.sparse_regression:SparseRegression"}
    assert rebuild(moved) == SparseRegression(d=3)
