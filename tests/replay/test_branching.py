"""Branches: the run itself up to the step, with no change beyond it, and beside their controls."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from stagewise import architectures
from stagewise._value_schedules import Ramp, Shuffled, Steps
from stagewise.checkpoints._training_state import begun_together
from stagewise.checkpoints.run_folder import INTERVENTIONS, METRICS, RUN, checkpoint_file
from stagewise.checkpoints.series import open_series
from stagewise.findings.delays import find_delays
from stagewise.plan import ClampHead, TrainPlan
from stagewise.recipe import Recipe, rebuild
from stagewise.replay._branches import FOLDER
from stagewise.replay.branching import branch, branches_of
from stagewise.replay.intervening import intervene
from stagewise.training import train
from tests.conftest import unchecked_types
from tests.fixtures.interruptible import Interruptible

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked")

TASK = Interruptible(d_vocab=4, spans=(1, 1), length=6, n_sequences=200)
PLAN = TrainPlan(steps=32, batch_size=32, learning_rate=0.1, save=range(0, 32, 8), states=(8,))
RECIPE = Recipe(TASK, architectures.minimal(4, TASK.n_ctx, n_heads=3), PLAN)
QUIET: dict[str, Any] = {"recipe": RECIPE, "progress": False}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(RECIPE, folder, progress=False)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def same_until(one: Path, other: Path) -> list[int]:
    """The steps at which the checkpoints of two runs have the same bytes."""
    return [
        step
        for step in PLAN.saved_steps
        if checkpoint_file(one, step).read_bytes() == checkpoint_file(other, step).read_bytes()
    ]


@pytest.mark.parametrize(
    "change", [{}, {"plan.learning_rate": 0.1}, {"task.importance": TASK.importance, "plan.draw": None}], ids=str
)
def test_a_branch_with_no_change_is_the_run_to_the_bit(change: Mapping[str, Any], run: Path) -> None:
    rows = branch(run, change, 16, controls=False, **QUIET)
    (place,) = [path.parent for path in (run / FOLDER).glob(f"*/{RUN}")]
    assert same_until(run, place) == list(PLAN.saved_steps)
    pd.testing.assert_frame_equal(pd.read_parquet(place / METRICS), pd.read_parquet(run / METRICS))
    assert len(rows)
    assert (rows["value"] == 0).all()


CHANGES: dict[str, Any] = {
    "plan.learning_rate": 0.01,
    "plan.weight_decay": 1.0,
    "plan.batch_size": 8,
    "plan.seeds.data": 5,
    "plan.draw": Shuffled(16, 32),
    "plan.leave_out": ("of token 1", "of new tokens"),
    "task.importance": 2.5,
    "plan.clamps": (ClampHead(0, 1, 16),),
}


@pytest.mark.parametrize("path", CHANGES)
def test_each_change_leaves_the_run_behind_its_step_and_is_that_of_a_training_from_the_start(
    path: str, run: Path, tmp_path: Path
) -> None:
    (one,) = branches_of(run, [{path: CHANGES[path]}], 16, RECIPE, controls=False, seeds=1)
    branch(run, {path: CHANGES[path]}, 16, controls=False, **QUIET)
    place = run / FOLDER / one.name
    assert same_until(run, place) == [0, 8, 16]
    train(one.recipe, tmp_path / "whole", progress=False)
    assert same_until(place, tmp_path / "whole") == list(PLAN.saved_steps)


def test_a_branch_names_its_parent_and_is_a_run_like_any_other(run: Path) -> None:
    branch(run, {"plan.learning_rate": 0.01, "task.importance": Ramp(1.5, 2.5, start=16, stop=24)}, 16, **QUIET)
    (place,) = (run / FOLDER).glob("plan.learning_rate=0.01-*-16")
    record = json.loads((place / RUN).read_text())
    assert record["parent"] == {"folder": "../..", "step": 16}
    assert (place / record["parent"]["folder"]).resolve() == run.resolve()
    recipe = rebuild(record["recipe"], [Interruptible])
    assert recipe.schedules["plan.learning_rate"] == Steps((0.1, 0.01), (16,))
    assert [recipe.at(step).task.importance for step in (15, 16, 20, 31)] == [TASK.importance, 1.5, 2.0, 2.5]
    assert train(recipe, place, progress=False).steps == PLAN.saved_steps


def test_controls_are_another_time_and_another_order_and_stay_in_the_table(run: Path) -> None:
    rows = branch(run, {"plan.learning_rate": 0.01}, 16, **QUIET)
    labels = rows[["control", "change", "step", "seed"]].drop_duplicates().to_dict("split")["data"]
    assert labels == [
        ["batch order", "another batch order", 16, 1],
        ["change", "plan.learning_rate=0.01", 16, 0],
        ["another time", "plan.learning_rate=0.01", 8, 0],
    ]
    held = intervene(run, [ClampHead(0, 1, 16)], controls=False, recipe=RECIPE, progress=False)
    assert set(held["control"]) == {"batch order", "change", "another time", "head"}
    asked = branch(run, {"plan.learning_rate": 0.01}, 8, controls=False, **QUIET)
    assert "another time" not in set(asked["control"])
    assert len(asked) == len(held)
    pd.testing.assert_frame_equal(asked, pd.read_parquet(run / INTERVENTIONS))


def test_several_changes_and_orders_are_compared_in_pairs(run: Path) -> None:
    changes: Sequence[Mapping[str, Any]] = [{"plan.learning_rate": rate} for rate in (0.02, 0.1)]
    rows = branch(run, changes, 16, controls=False, seeds=2, **QUIET)
    same = rows[rows["change"] == "plan.learning_rate=0.1"]
    assert set(same["seed"]) == {0, 1}
    assert (same["value"] == 0).all()  # in each order, of that order's own run
    means = find_delays(rows.rename(columns={"change": "without"}))
    assert set(means["without"]) == {"another batch order", "plan.learning_rate=0.02", "plan.learning_rate=0.1"}


def test_a_lower_rate_delays_what_comes_after_it(run: Path) -> None:
    rows = branch(run, {"plan.learning_rate": 0.005}, 16, controls=False, **QUIET)
    half = rows[rows["transition"] == "loss 0.5"]
    assert (half["value"] > 0).all()
    assert (half["lo"] >= 0).all()


def test_a_killed_branch_resumes_with_the_same_bits(run: Path, trained: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(trained, tmp_path / "other"))
    change = {"plan.learning_rate": 0.01}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Interruptible, "stop_at", 27)
        with pytest.raises(KeyboardInterrupt, match="stopped at 27"):
            branch(run, change, 16, controls=False, **QUIET)
    place = run / FOLDER / "plan.learning_rate=0.01-16"
    assert open_series(place).steps == (0, 8, 16, 24)
    rows = branch(run, change, 16, controls=False, **QUIET)
    expected = branch(other, change, 16, controls=False, **QUIET)
    assert same_until(place, other / FOLDER / place.name) == list(PLAN.saved_steps)
    pd.testing.assert_frame_equal(rows, expected.assign(run=rows["run"]))


def test_branches_of_one_shape_are_trained_together_from_their_step_and_resume_so(run: Path) -> None:
    changes = [{"plan.learning_rate": rate} for rate in (0.02, 0.1)]
    how: dict[str, Any] = {"controls": False, "together": 2, **QUIET}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Interruptible, "stop_at", 27)
        with pytest.raises(KeyboardInterrupt, match="stopped at 27"):
            branch(run, changes, 16, **how)
    places = [run / FOLDER / f"plan.learning_rate={rate}-16" for rate in (0.02, 0.1)]
    assert [begun_together(place) for place in places] == [True, True]
    rows = branch(run, changes, 16, **how)
    assert [same_until(run, place)[:3] for place in places] == [[0, 8, 16], [0, 8, 16]]
    same = rows[rows["change"] == "plan.learning_rate=0.1"]
    assert same["value"].abs().max() < 0.01  # the run itself, but for the order of sums
    one, own = (open_series(each).weights(32) for each in (places[1], run))
    assert all(torch.allclose(one[name], own[name], atol=1e-4) for name in own)
    again = branch(run, changes, 16, **how)
    pd.testing.assert_frame_equal(rows, again)


def test_a_branch_of_a_branch_changes_what_was_changed(run: Path) -> None:
    branch(run, {"plan.learning_rate": 0.05}, 8, controls=False, **QUIET)
    place = run / FOLDER / "plan.learning_rate=0.05-8"
    recipe = rebuild(json.loads((place / RUN).read_text())["recipe"], [Interruptible])
    branch(place, {"plan.learning_rate": 0.2}, 16, controls=False, recipe=recipe, progress=False)
    assert same_until(place, place / FOLDER / "plan.learning_rate=0.2-16") == [0, 8, 16]


@pytest.mark.parametrize(
    ("change", "start", "message"),
    [
        ({"plan.learning_rat": 1.0}, 16, "plan.learning_rat: the recipe has no such field .did you mean"),
        ({"plan.steps": 64}, 16, "plan.steps stays as it is in training"),
        ({"plan.learning_rate": "fast"}, 16, "schedules, at step 16: plan.learning_rate: expected"),
        ({"task.length": 5}, 16, "leave its size as it is"),
        ({"plan.learning_rate": 0.1}, 32, "run has come to step 32: branch from an earlier one than 32"),
        ({"plan.clamps": (ClampHead(0, 1, 8),)}, 16, "held from the step of the branch on, 16, or later; got 8"),
        ([], 16, "one change or more"),
    ],
)
def test_what_is_no_change_is_refused_before_anything_is_written(
    change: Any, start: int, message: str, trained: Path
) -> None:
    with unchecked_types(), pytest.raises(ValueError, match=message):
        branch(trained, change, start, **QUIET)
    assert not (trained / FOLDER).exists()


def test_two_changes_whose_names_are_cut_alike_have_folders_of_their_own(run: Path) -> None:
    values = [Steps((1.5, 2.0 + one), (20,)) for one in (0.0, 0.25)]
    long = {"plan.learning_rate": 0.1, "plan.weight_decay": 0.01, "plan.batch_size": 32}
    changes = [{**long, "task.importance": value} for value in values]
    branch(run, changes, 16, controls=False, **QUIET)
    places = sorted(path.parent for path in (run / FOLDER).glob(f"*/{RUN}"))
    assert len(places) == 2
    assert same_until(*places) == [0, 8, 16]


def test_a_change_of_clamps_is_the_intervention(run: Path, trained: Path, tmp_path: Path) -> None:
    other, clamp = Path(shutil.copytree(trained, tmp_path / "other")), ClampHead(0, 1, 16)
    rows = branch(run, {"plan.clamps": (clamp,)}, 16, controls=False, **QUIET)
    held = intervene(other, [clamp], controls=False, recipe=RECIPE, progress=False)
    place = run / FOLDER / "plan.clamps=L0H1-out-16"
    assert same_until(place, other / FOLDER / "L0H1-out-16") == list(PLAN.saved_steps)
    columns = ["transition", "value", "lo", "hi"]
    pd.testing.assert_frame_equal(rows[columns], held[columns])
