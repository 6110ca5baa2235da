"""Training together: the models that training gives one by one, each in its own folder; resumed with the same bits."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise import models
from stagewise.checkpoints._training_state import save
from stagewise.checkpoints.run_folder import METRICS, RESUME, checkpoint_file, is_finished
from stagewise.checkpoints.series import open_series
from stagewise.papers.emergence.recipes import recall_recipe
from stagewise.papers.training_together import RunsDiverged, _rule_of, _Stack, train_together
from stagewise.plan import ClampHead, Seeds
from stagewise.recipe import Recipe
from stagewise.replay.densifying import densify_steps
from stagewise.task import Batch
from stagewise.tasks import MarkovChain
from stagewise.training import Training, prepare, train
from stagewise.value_schedules import Steps
from tests.fixtures.interruptible import FULL, MINIMAL, PLAN, SCHEDULES, TASK, Interruptible, contents

FLOAT32 = 2e-5
"""Weights of order one after a few float32 updates, sums in another order."""

BFLOAT16 = 2**-8
"""Relative error of a number in bfloat16: a loss sums many that are rounded so."""

OPTIMISERS: dict[str, dict[str, Any]] = {
    "adamw": {},
    "momentum": {"optimiser": "sgd", "momentum": 0.9, "learning_rate": 0.02, "clip": None},
    "clipped sgd": {"optimiser": "sgd", "clip": 0.1},
}
RECALL = recall_recipe(3, 6)
KINDS = {"minimal": Recipe(TASK, MINIMAL, PLAN), "full": Recipe(TASK, FULL, PLAN)} | {
    "schedules": Recipe(TASK, MINIMAL, PLAN, SCHEDULES),
    "recall": dataclasses.replace(RECALL, plan=dataclasses.replace(PLAN, learning_rate=0.003)),
}


def changed(recipe: Recipe, **fields: Any) -> Recipe:
    return dataclasses.replace(recipe, plan=dataclasses.replace(recipe.plan, **fields))


def seeds(recipe: Recipe, *numbers: int) -> list[Recipe]:
    return [changed(recipe, seeds=Seeds(number, number, number)) for number in numbers]


def together(recipes: Sequence[Recipe], folder: Path, **how: Any) -> list[Path]:
    folders = [folder / str(number) for number in range(len(recipes))]
    train_together(recipes, folders, progress=False, **how)
    return folders


def assert_same_run(folder: Path, alone: Path, step: int) -> None:
    """Compare losses, gradient norms and weights, but for b_K.

    It shifts all scores of a query alike: its gradient is noise, which AdamW scales up.
    """
    metrics = [pd.read_parquet(each / METRICS).to_numpy() for each in (folder, alone)]
    np.testing.assert_allclose(metrics[0], metrics[1], rtol=1e-4)
    ours, theirs = (open_series(each).weights(step) for each in (folder, alone))
    for name in ours.keys() - {"blocks.0.attn.b_K", "blocks.1.attn.b_K"}:
        torch.testing.assert_close(ours[name], theirs[name], atol=FLOAT32, rtol=0, msg=f"{name}: {{}}".format)


@pytest.mark.each_value
@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("kind", KINDS)
def test_together_each_run_is_what_it_is_by_itself(kind: str, optimiser: str, tmp_path: Path) -> None:
    recipes = seeds(changed(KINDS[kind], save=(), **OPTIMISERS[optimiser]), 0, 1, 5)
    for folder, recipe in zip(together(recipes, tmp_path), recipes, strict=True):
        train(recipe, tmp_path / "alone" / folder.name, progress=False)
        assert_same_run(folder, tmp_path / "alone" / folder.name, 8)


@pytest.mark.slow
def test_together_in_bfloat16_each_run_is_near_what_it_is_by_itself(tmp_path: Path) -> None:
    recipes = seeds(changed(KINDS["full"], save=()), 0, 1)
    exact, narrow = (together(recipes, tmp_path / name, dtype=name) for name in ("float32", "bfloat16"))
    for number, recipe in enumerate(recipes):
        train(recipe, tmp_path / f"alone-{number}", progress=False, dtype="bfloat16")
        metrics = [pd.read_parquet(folder / METRICS)["loss"].to_numpy() for folder in (narrow[number], exact[number])]
        alone = pd.read_parquet(tmp_path / f"alone-{number}" / METRICS)["loss"].to_numpy()
        np.testing.assert_allclose(metrics[0], alone, rtol=BFLOAT16)
        assert not np.allclose(metrics[0], metrics[1], rtol=1e-5)


def test_rates_optimisers_saved_steps_and_tasks_may_differ(tmp_path: Path) -> None:
    base, other = KINDS["full"], dataclasses.replace(TASK, importance=2.0)
    recipes = [
        base,
        changed(base, learning_rate=0.01, rates={"*.W_E": 0.2}, save=frozenset({4})),
        changed(base, optimiser="sgd", momentum=0.9),
        changed(dataclasses.replace(base, task=other), seeds=Seeds(3), clip=None),
        changed(base, learning_rate=0.01, warmup=4, cooldown=3, clip=0.01),
    ]
    for folder, recipe in zip(together(recipes, tmp_path), recipes, strict=True):
        alone = train(recipe, tmp_path / "alone" / folder.name, progress=False)
        assert open_series(folder).steps == alone.steps
        assert_same_run(folder, tmp_path / "alone" / folder.name, 8)


def test_a_run_folder_holds_what_training_by_itself_writes(tmp_path: Path) -> None:
    recipe = KINDS["minimal"]
    (folder, _), alone = together(seeds(recipe, 0, 1), tmp_path), tmp_path / "alone"
    train(recipe, alone, progress=False)
    files = [sorted(path.relative_to(each) for path in each.rglob("*")) for each in (folder, alone)]
    assert files[0] == files[1]
    assert (folder / "run.json").read_bytes() == (alone / "run.json").read_bytes()
    states = [torch.load(each / "states" / "step-00000003.pt") for each in (folder, alone)]
    assert (states[0].pop("together"), "together" in states[1]) == ("1 of 2", False)
    assert states[0]["optimiser"]["param_groups"] == states[1]["optimiser"]["param_groups"]
    torch.testing.assert_close(states[0]["optimiser"]["state"], states[1]["optimiser"]["state"], atol=FLOAT32, rtol=0)


MIXED = [*seeds(KINDS["full"], 0, 1), changed(KINDS["full"], optimiser="sgd", momentum=0.9, save=frozenset({3, 6}))]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs that were trained together without a stop."""
    return together(MIXED, tmp_path_factory.mktemp("whole"))


@pytest.mark.one_of(3)
@pytest.mark.parametrize("steps", [(0,), (4,), (2, 7)], ids=str)
def test_runs_stopped_and_resumed_together_have_the_bits_of_runs_never_stopped(
    steps: tuple[int, ...], whole: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in steps:
        monkeypatch.setattr(Interruptible, "stop_at", step)
        with pytest.raises(KeyboardInterrupt, match=f"stopped at {step}"):
            together(MIXED, tmp_path)
    monkeypatch.setattr(Interruptible, "stop_at", None)
    assert list(map(contents, together(MIXED, tmp_path))) == list(map(contents, whole))


@pytest.mark.one_of(3)
@pytest.mark.parametrize("saves", [1, 4, 8])
def test_runs_stopped_between_their_saves_have_the_bits_of_runs_never_stopped(
    saves: int, whole: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three are saved at step 0, three at 3, two at 5, one at 6, three at 8: some have come further than others."""
    done: list[int] = []

    def stop(*arguments: Any, **named: Any) -> None:
        if len(done) == saves:
            raise KeyboardInterrupt
        done.append(saves)
        save(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr("stagewise.training.save", stop)
        with pytest.raises(KeyboardInterrupt):
            together(MIXED, tmp_path)
    assert list(map(contents, together(MIXED, tmp_path))) == list(map(contents, whole))


def test_a_run_that_diverges_ends_alone_and_is_named(whole: list[Path], tmp_path: Path) -> None:
    hot = changed(MIXED[1], optimiser="sgd", learning_rate=1e30, clip=None)
    with pytest.raises(RunsDiverged, match=rf"{tmp_path}/1: .* lower the learning rate .* up to step 0 are in"):
        together([MIXED[0], hot, MIXED[2]], tmp_path)
    assert [is_finished(tmp_path / str(number)) for number in range(3)] == [True, False, True]
    for number in (0, 2):
        train(MIXED[number], tmp_path / "alone" / str(number), progress=False)
        assert_same_run(tmp_path / str(number), tmp_path / "alone" / str(number), 8)
    with pytest.raises(RunsDiverged, match="up to step 0 are in"):  # again: the first one is still good
        together([MIXED[0], hot, MIXED[2]], tmp_path)
    assert open_series(tmp_path / "1").steps == (0,)


def test_finished_runs_are_opened_as_they_are_and_new_ones_trained_without_them(tmp_path: Path) -> None:
    first = together(seeds(KINDS["full"], 0, 1), tmp_path)
    before = list(map(contents, first))
    folders = together(seeds(KINDS["full"], 0, 1, 2), tmp_path)
    assert list(map(contents, first)) == before
    assert torch.load(folders[2] / RESUME)["together"] == "1 of 1"


def test_a_run_is_resumed_in_the_way_in_which_it_was_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Interruptible, "stop_at", 4)
    recipes = seeds(KINDS["full"], 0, 1)
    with pytest.raises(KeyboardInterrupt):
        together(recipes, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train(recipes[0], tmp_path / "alone", progress=False)
    monkeypatch.setattr(Interruptible, "stop_at", None)
    with pytest.raises(ValueError, match="was begun by itself, or as another one of several"):
        train(recipes[0], tmp_path / "0", progress=False)
    with pytest.raises(ValueError, match="was begun by itself, or as another one of several"):
        together(seeds(KINDS["full"], 0, 1, 2), tmp_path)
    with pytest.raises(ValueError, match="was begun by itself, or as another one of several"):
        train_together(recipes, [tmp_path / "alone", tmp_path / "1"], progress=False)


def test_what_was_trained_together_is_not_replayed_by_itself(whole: list[Path]) -> None:
    with pytest.raises(ValueError, match="was begun by itself, or as another one of several"):
        densify_steps(whole[0], [7], progress=False)
    assert not checkpoint_file(whole[0], 7).exists()


HOOKED = Recipe(TASK, {**FULL.config, "normalization_type": "RMS"}, PLAN)
HELD = changed(KINDS["full"], clamps=(ClampHead(0, 0, start=2),))


@pytest.mark.parametrize(
    ("recipes", "message"),
    [
        ([KINDS["full"], HELD], r"1 cannot be trained together with others, since its plan holds heads: train it by"),
        (seeds(HOOKED, 0, 1), "since the fused pass of training does not cover its config"),
        ([KINDS["full"], changed(KINDS["full"], steps=9)], r"1 does not fit .*\n  plan.steps: 9 here, 8 in .*0"),
        ([], r"give one recipe or more, and each a folder of its own; got \[\]"),
    ],
    ids=["held heads", "hooked", "other steps", "none"],
)
def test_what_does_not_fit_together_is_refused_before_anything_is_written(
    recipes: list[Recipe], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        together(recipes, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="each a folder of its own"):
        train_together(seeds(KINDS["full"], 0, 1), [tmp_path / "run", tmp_path / "run"])


@dataclasses.dataclass(frozen=True)
class Unevenly(MarkovChain):
    """The Markov chain, of which each sequence scores other predictions."""

    def sample(self, n: int, seed: int) -> Batch:
        batch = super().sample(n, seed)
        return dataclasses.replace(batch, scored=batch.scored & (batch.tokens != 0))


def test_runs_that_score_other_predictions_are_refused(tmp_path: Path) -> None:
    recipe = Recipe(Unevenly(d_vocab=4, spans=(1, 1), length=3, n_sequences=40), FULL, PLAN)
    with pytest.raises(ValueError, match=r"1 does not fit to what it is trained together with:\n  scored: "):
        together(seeds(recipe, 0, 1), tmp_path)


@dataclasses.dataclass(frozen=True)
class UnevenLater(MarkovChain):
    """The Markov chain, of which each seed scores other predictions from a step on."""

    def stream(self, seed: int) -> Callable[[int, int], Batch]:
        draw = super().stream(seed)

        def uneven(step: int, size: int) -> Batch:
            batch = draw(step, size)
            return dataclasses.replace(batch, scored=batch.scored & (step < 2 or seed == 0))

        return uneven


def test_runs_that_come_to_score_other_predictions_stop(tmp_path: Path) -> None:
    recipe = Recipe(UnevenLater(d_vocab=4, spans=(1, 1), length=3, n_sequences=40), FULL, PLAN)
    with pytest.raises(ValueError, match="the tasks score other predictions in each run at step 2, and runs that are"):
        together(seeds(recipe, 0, 1), tmp_path)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")
@pytest.mark.parametrize("kind", KINDS)
def test_together_on_a_gpu_gives_the_losses_of_the_cpu(kind: str, tmp_path: Path) -> None:
    recipes = seeds(KINDS[kind], 0, 1)
    for folder, recipe in zip(together(recipes, tmp_path, device="cuda"), recipes, strict=True):
        train(recipe, tmp_path / "alone" / folder.name, progress=False)
        ours, theirs = (pd.read_parquet(each / METRICS) for each in (folder, tmp_path / "alone" / folder.name))
        np.testing.assert_allclose(ours["loss"], theirs["loss"], rtol=1e-3)


ROUNDING = 1e-6
"""Of weights of order one, after one step in float32 with sums in another order."""


def members(*rates: float) -> list[tuple[Recipe, Training]]:
    """Runs by SGD, whose step is the gradient itself, clipped to a tenth."""
    kind = dataclasses.replace(PLAN, optimiser="sgd", clip=0.1, weight_decay=0.0)
    plans = [
        dataclasses.replace(kind, learning_rate=rate, seeds=Seeds(seed, seed, seed)) for seed, rate in enumerate(rates)
    ]
    recipes = [Recipe(TASK, FULL, plan) for plan in plans]
    return [(recipe, prepare(recipe)) for recipe in recipes]


@pytest.mark.parametrize("rates", [(0.1, 0.1), (0.1, 0.02)])
def test_a_step_of_a_stack_is_a_step_of_each_run(rates: tuple[float, ...]) -> None:
    stacked, alone = members(*rates), members(*rates)
    stack = _Stack(stacked, "float32")
    losses, norms = stack.update(0)
    for number, ((recipe, training), (_, own)) in enumerate(zip(stacked, alone, strict=True)):
        stack.take(number)
        loss = own.loss_at(0)
        gradients = torch.autograd.grad(loss, weights := list(models.parameters(own.model).values()), allow_unused=True)
        norm = torch.cat([each.flatten() for each in gradients if each is not None]).norm().item()
        assert (losses[number], norms[number]) == pytest.approx((loss.item(), norm), rel=1e-5)
        rate = recipe.plan.learning_rate * min(0.1 / norm, 1.0)
        for ours, weight, each in zip(models.parameters(training.model).values(), weights, gradients, strict=True):
            expected = weight if each is None else weight - rate * each
            torch.testing.assert_close(ours, expected, atol=ROUNDING, rtol=0)


def test_what_was_put_into_a_stack_is_taken_out_again() -> None:
    runs = members(0.1, 0.1)
    stack = _Stack(runs, "float32")
    _, training = runs[1]
    with torch.no_grad():
        for weight in models.parameters(training.model).values():
            weight.fill_(2.0)
    stack.put(1)
    stack.take(0)
    stack.take(1)
    own, other = (models.parameters(each.model)["unembed.W_U"] for _, each in (runs[1], runs[0]))
    assert bool((own == 2).all())
    assert not bool((other == 2).any())


def test_runs_that_differ_in_seeds_share_a_rule_and_those_of_other_rates_do_not() -> None:
    (first, _), (second, _), (third, _) = members(0.1, 0.1, 0.02)
    assert _rule_of(first) == _rule_of(second) != _rule_of(third)
    for path, other in (("plan.momentum", 0.9), ("plan.weight_decay", 0.1)):
        assert _rule_of(dataclasses.replace(first, schedules={path: Steps((0.0, other), (3,))})) != _rule_of(first)
    of_data = dataclasses.replace(first, schedules={"task.importance": Steps((1.7, 2.0), (3,))})
    assert _rule_of(of_data) == _rule_of(first)
