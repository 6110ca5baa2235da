"""Densifying: what a replay saves has the bits of a run that had saved it from the start."""

import dataclasses
import functools
import shutil
from pathlib import Path
from typing import Any

import pytest

from stagewise import architectures
from stagewise.checkpoints._checksums import faults
from stagewise.checkpoints._training_state import save_weights, state_steps
from stagewise.checkpoints.run_folder import STATES, checkpoint_file, read_checkpoint
from stagewise.checkpoints.series import open_series
from stagewise.plan import ClampHead, TrainPlan
from stagewise.recipe import Recipe
from stagewise.replay.densifying import _planned, cost, densify, densify_steps, steps_within
from stagewise.replay.windows import Window
from stagewise.tasks import MarkovChain
from stagewise.training import train

pytestmark = pytest.mark.usefixtures("unchecked")

TASK = MarkovChain(d_vocab=4, spans=(1, 1), length=3, n_sequences=40)
FULL = architectures.full(4, TASK.n_ctx, n_heads=2, d_model=8, d_mlp=6)
PLAN = TrainPlan(steps=16, batch_size=6, learning_rate=0.05, save=range(0, 16, 4), states=(4, 8))
RECIPES = {
    "adamw": Recipe(TASK, FULL, PLAN),
    "sgd, heads held": Recipe(
        TASK,
        FULL,
        dataclasses.replace(
            PLAN, optimiser="sgd", momentum=0.9, cooldown=8, clamps=(ClampHead(0, 1, 6), ClampHead(0, 0, 8, "kick"))
        ),
    ),
    "a relation held": Recipe(TASK, FULL, dataclasses.replace(PLAN, clamps=(ClampHead(0, 1, 6, "relation", "I(2)"),))),
    "minimal": Recipe(TASK, architectures.minimal(4, TASK.n_ctx, n_heads=2), dataclasses.replace(PLAN, clip=None)),
}


@pytest.fixture(scope="module")
def coarse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each recipe trained as it is, and once more with every step saved from the start."""
    folder = tmp_path_factory.mktemp("coarse")
    for name, recipe in RECIPES.items():
        train(recipe, folder / name, progress=False)
        every = dataclasses.replace(recipe.plan, save=range(16), states=())
        train(dataclasses.replace(recipe, plan=every), folder / f"{name} finely", progress=False)
    return folder


@pytest.fixture
def run(coarse: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(coarse / "adamw", tmp_path / "run"))


def bits(folder: Path, step: int) -> bytes:
    return checkpoint_file(folder, step).read_bytes()


@pytest.mark.each_value
@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("between", [(0, 4), (5, 8), (3, 13)], ids=str)
def test_a_densified_run_has_the_bits_of_one_that_saved_every_step(
    name: str, between: tuple[int, int], coarse: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(coarse / name, tmp_path / "run"))
    series = densify(run, between, progress=False)
    assert series.steps == tuple(sorted({0, 4, 8, 12, 16, *range(*between)}))
    for step in series.steps:
        assert bits(run, step) == bits(coarse / f"{name} finely", step)
    assert not [*faults(run)]


def test_a_run_without_states_is_replayed_from_its_initialisation(run: Path, coarse: Path) -> None:
    shutil.rmtree(run / STATES)
    assert _planned(run, [9])[0].start == 0
    densify(run, (9, 12), 2, progress=False)
    assert [bits(run, step) == bits(coarse / "adamw finely", step) for step in (9, 11)] == [True, True]


def test_a_replay_starts_at_the_nearest_state_and_the_cost_says_so(run: Path) -> None:
    assert state_steps(run) == [4, 8]
    taken = cost(run, [5, 6, 8, 13])
    assert [(one.start, one.stop, one.steps) for one in _planned(run, [5, 6, 8, 13])] == [(4, 16, (5, 6, 13))]
    assert (taken.updates, taken.checkpoints) == (12, 3)
    assert str(taken).startswith("12 updates are replayed, 75 % of the run's; 3 checkpoints are added")
    assert cost(run, [4, 8]).updates == 0


def test_what_is_there_is_not_made_again(run: Path) -> None:
    densify(run, (4, 8), progress=False)
    times = {path: path.stat().st_mtime_ns for path in (run / "checkpoints").glob("step-*")}
    assert densify(run, (4, 8), progress=False).steps == (0, 4, 5, 6, 7, 8, 12, 16)
    assert {path: path.stat().st_mtime_ns for path in (run / "checkpoints").glob("step-*")} == times


def test_a_densified_run_is_still_a_run_of_its_recipe(run: Path) -> None:
    densify_steps(run, [6], progress=False)
    assert train(RECIPES["adamw"], run, progress=False).steps == (0, 4, 6, 8, 12, 16)


def test_a_replay_that_meets_other_bits_writes_nothing(run: Path) -> None:
    other = {name: weight + 1e-3 for name, weight in read_checkpoint(run, 8).items()}
    save_weights(run, 8, other)
    with pytest.raises(ValueError, match=r"gives other bits of .* checkpoint of step 8.*torch takes 1 here"):
        densify(run, (5, 12), progress=False)
    assert open_series(run).steps == (0, 4, 8, 12, 16)


def test_a_damaged_state_is_named(run: Path) -> None:
    path = run / STATES / "step-00000004.pt"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"step-00000004.pt is .*damaged.* a replay then starts from an earlier state"):
        densify(run, (5, 7), progress=False)


@pytest.mark.parametrize("between", [(-1, 4), (5, 5), (8, 18)], ids=str)
def test_steps_that_the_run_has_not_come_to_are_refused(between: tuple[int, int], run: Path) -> None:
    with pytest.raises(ValueError, match=r"within the run's steps, from 0 to 16 .*got \("):
        densify(run, between, progress=False)


@pytest.mark.parametrize("checkpoints", [1, 7, 30, 1000])
def test_windows_are_filled_evenly_within_a_budget(checkpoints: int) -> None:
    proposed = [Window(80, 120, 3), Window(30, 50, 2)]
    steps = steps_within(proposed, 130, checkpoints)
    assert len(steps) <= checkpoints + len(proposed)
    assert all(any(step in window.reach for window in proposed) for step in steps)
    assert {20, 60} <= steps
    assert max(steps) < 130
    assert steps_within(proposed, 130, every=1) == {*range(20, 130)}


@pytest.mark.parametrize("checkpoints", [1, 2, 5, 20, 60, 1000])
def test_a_larger_budget_never_adds_fewer_and_what_is_saved_does_not_count(checkpoints: int) -> None:
    reach, saved = set(range(30, 150)), set(range(0, 200, 10))
    within = functools.partial(steps_within, [Window(30, 150)], 200, saved=saved)
    steps = within(checkpoints)
    assert 1 <= len(steps) <= checkpoints
    assert steps <= reach - saved
    assert len(within(checkpoints + 1)) >= len(steps)
    added = (set(range(30, 150, every)) - saved for every in range(1, 120))
    assert steps == next(each for each in added if 1 <= len(each) <= checkpoints)


def test_densifying_again_and_again_comes_to_every_step() -> None:
    saved = set(range(0, 100, 20))
    for _ in range(20):
        steps = steps_within([Window(30, 75)], 100, 7, saved=saved)
        assert bool(steps) == (not saved.issuperset(range(30, 75)))
        saved |= steps
    assert saved.issuperset(range(30, 75))


def test_steps_of_ones_own_are_taken_as_they_are() -> None:
    assert steps_within([Window(5, 9)], 20, every=2) == {5, 7}


@pytest.mark.slow
def test_a_model_in_bfloat16_is_replayed_in_it(tmp_path: Path) -> None:
    run, finely = tmp_path / "run", tmp_path / "finely"
    train(RECIPES["adamw"], run, progress=False, dtype="bfloat16")
    every = dataclasses.replace(RECIPES["adamw"].plan, save=range(16), states=())
    train(dataclasses.replace(RECIPES["adamw"], plan=every), finely, progress=False, dtype="bfloat16")
    with pytest.raises(ValueError, match=r"run is trained in bfloat16, .* give --dtype bfloat16, in Python"):
        densify(run, (5, 7), progress=False)
    densify(run, (5, 7), progress=False, dtype="bfloat16")
    assert [bits(run, step) for step in (5, 6)] == [bits(finely, step) for step in (5, 6)]


def test_steps_of_ones_own_that_the_run_has_not_come_to_are_refused(run: Path) -> None:
    for step in (-3, 17):
        with pytest.raises(ValueError, match=f"has come to step 16, and there is no step {step} in it to replay"):
            densify_steps(run, [5, step], progress=False)


def test_a_run_that_has_not_come_to_its_end_is_densified_up_to_where_it_is(run: Path, coarse: Path) -> None:
    for step in (12, 16):
        checkpoint_file(run, step).unlink()
    last = open_series(run).steps[-1]
    assert last == 8
    densify_steps(run, steps_within([Window(5, 14)], last), progress=False)
    assert open_series(run).steps == (0, 4, 5, 6, 7, 8)
    assert bits(run, 7) == bits(coarse / "adamw finely", 7)


@pytest.mark.parametrize(("budget", "message"), [({"checkpoints": 0}, "at least one new"), ({"every": 0}, "every=0")])
def test_a_densification_of_nothing_is_refused(budget: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        steps_within([Window(5, 9)], 20, **budget)
