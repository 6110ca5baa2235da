"""Branches: the run itself up to the step, with no change beyond it, and beside their controls."""

import dataclasses
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from stagewise import architectures
from stagewise.architecture import Architecture
from stagewise.checkpoints.run_folder import INTERVENTIONS, METRICS, RESUME, RUN, STATES, checkpoint_file
from stagewise.checkpoints.series import open_series
from stagewise.findings.delays import find_delays
from stagewise.init import GaussianInit
from stagewise.plan import ClampHead
from stagewise.recipe import Recipe, rebuild
from stagewise.replay import Parent
from stagewise.replay._branches import FOLDER
from stagewise.replay._changes import with_controls
from stagewise.replay.branching import branch, branches_of, intervene
from stagewise.replay.densifying import densify
from stagewise.task import Batch
from stagewise.training import train
from stagewise.value_schedules import Ramp, Shuffled, Steps
from tests.conftest import unchecked_types
from tests.fixtures.late import LATE, PLAN, TASK, Late

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked")

SAVED = list(PLAN.saved_steps)
RECIPE = LATE
QUIET: dict[str, Any] = {"recipe": RECIPE, "progress": False}


@pytest.fixture(scope="module")
def trained(late_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(late_folder, tmp_path_factory.mktemp("trained") / "run"))


@pytest.fixture(scope="module")
def measured(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run with its own rows and its answer, which branches are compared with."""
    folder = Path(shutil.copytree(trained, tmp_path_factory.mktemp("measured") / "run"))
    assert Parent(folder, RECIPE).answer is not None
    return folder


@pytest.fixture
def run(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "run"))


def same_until(one: Path, other: Path) -> list[int]:
    """The steps at which the checkpoints of two runs have the same bytes."""
    return [
        step
        for step in PLAN.saved_steps
        if checkpoint_file(one, step).read_bytes() == checkpoint_file(other, step).read_bytes()
    ]


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    "change", [{}, {"plan.learning_rate": PLAN.learning_rate}, {"task.wrong": TASK.wrong, "plan.draw": None}], ids=str
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
    "plan.draw": Shuffled(16, PLAN.steps),
    "plan.leave_out": ("of token 1", "of new tokens"),
    "task.wrong": 0.2,
    "plan.clamps": (ClampHead(0, 1, 16),),
}


@pytest.mark.one_of(3)
@pytest.mark.parametrize("path", CHANGES)
def test_each_change_leaves_the_run_behind_its_step_and_is_that_of_a_training_from_the_start(
    path: str, run: Path, tmp_path: Path
) -> None:
    (one,) = branches_of(Parent(run, RECIPE), [{path: CHANGES[path]}], 16, controls=False, seeds=1)
    branch(run, {path: CHANGES[path]}, 16, controls=False, **QUIET)
    place = run / FOLDER / one.name
    assert same_until(run, place) == [step for step in SAVED if step <= 16]
    train(one.recipe, tmp_path / "whole", progress=False)
    assert same_until(place, tmp_path / "whole") == list(PLAN.saved_steps)


def test_a_branch_names_its_parent_and_is_a_run_like_any_other(run: Path) -> None:
    branch(run, {"plan.learning_rate": 0.01, "task.wrong": Ramp(0.0, 0.4, start=16, stop=24)}, 16, **QUIET)
    (place,) = (run / FOLDER).glob("plan.learning_rate=0.01-*-16")
    record = json.loads((place / RUN).read_text())
    assert record["parent"] == {"folder": "../..", "step": 16}
    assert (place / record["parent"]["folder"]).resolve() == run.resolve()
    recipe = rebuild(record["recipe"])
    assert recipe.schedules["plan.learning_rate"] == Steps((PLAN.learning_rate, 0.01), (16,))
    assert [recipe.at(step).task.wrong for step in (15, 16, 20, 31)] == [TASK.wrong, 0.0, 0.2, 0.4]
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
    changes: Sequence[Mapping[str, Any]] = [{"plan.learning_rate": rate} for rate in (0.02, PLAN.learning_rate)]
    rows = branch(run, changes, 16, controls=False, seeds=2, **QUIET)
    same = rows[rows["change"] == f"plan.learning_rate={PLAN.learning_rate}"]
    assert set(same["seed"]) == {0, 1}
    assert (same["value"] == 0).all()  # in each order, of that order's own run
    means = find_delays(rows.rename(columns={"change": "without"}))
    rates = [f"plan.learning_rate={rate}" for rate in (0.02, PLAN.learning_rate)]
    assert set(means["without"]) == {"another batch order", *rates}


def test_a_lower_rate_delays_what_comes_after_it(run: Path) -> None:
    rows = branch(run, {"plan.learning_rate": 0.2}, 16, controls=False, **QUIET)
    half = rows[rows["transition"] == "transition 1"]
    assert half["event"].tolist() == [1]
    assert (half["value"] > 0).all()
    assert (half["lo"] >= 0).all()


def test_a_killed_branch_resumes_with_the_same_bits(run: Path, measured: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(measured, tmp_path / "other"))
    change = {"plan.learning_rate": 0.01}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Late, "stop_at", 27)
        with pytest.raises(KeyboardInterrupt, match="stopped at 27"):
            branch(run, change, 16, controls=False, **QUIET)
    place = run / FOLDER / "plan.learning_rate=0.01-16"
    assert open_series(place).steps == tuple(range(0, 27, 2))
    rows = branch(run, change, 16, controls=False, **QUIET)
    expected = branch(other, change, 16, controls=False, **QUIET)
    assert same_until(place, other / FOLDER / place.name) == list(PLAN.saved_steps)
    pd.testing.assert_frame_equal(rows, expected.assign(run=rows["run"]))


def test_a_branch_of_a_branch_changes_what_was_changed(run: Path) -> None:
    branch(run, {"plan.learning_rate": 0.25}, 8, controls=False, **QUIET)
    place = run / FOLDER / "plan.learning_rate=0.25-8"
    recipe = rebuild(json.loads((place / RUN).read_text())["recipe"])
    branch(place, {"plan.learning_rate": 0.2}, 16, controls=False, recipe=recipe, progress=False)
    assert same_until(place, place / FOLDER / "plan.learning_rate=0.2-16") == [step for step in SAVED if step <= 16]


@pytest.mark.parametrize(
    ("change", "start", "message"),
    [
        ({"plan.learning_rat": 1.0}, 16, "plan.learning_rat: the recipe has no such field .did you mean"),
        ({"plan.steps": 64}, 16, "plan.steps stays as it is in training"),
        ({"plan.learning_rate": "fast"}, 16, "schedules, at step 16: plan.learning_rate: expected"),
        ({"task.n_ctx": 5}, 16, "leave its size as it is"),
        ({"plan.learning_rate": 0.1}, 40, "run has come to step 40: branch from an earlier one than 40"),
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
    values = [Steps((0.0, 0.2 + one), (20,)) for one in (0.0, 0.25)]
    long = {"plan.learning_rate": 0.2, "plan.weight_decay": 0.01, "plan.batch_size": 32}
    changes = [{**long, "task.wrong": value} for value in values]
    branch(run, changes, 16, controls=False, **QUIET)
    places = sorted(path.parent for path in (run / FOLDER).glob(f"*/{RUN}"))
    assert len(places) == 2
    assert same_until(*places) == [step for step in SAVED if step <= 20]


def test_a_change_of_clamps_is_the_intervention(run: Path, measured: Path, tmp_path: Path) -> None:
    other, clamp = Path(shutil.copytree(measured, tmp_path / "other")), ClampHead(0, 1, 16)
    rows = branch(run, {"plan.clamps": (clamp,)}, 16, controls=False, **QUIET)
    held = intervene(other, [clamp], controls=False, recipe=RECIPE, progress=False)
    place = run / FOLDER / "plan.clamps=L0H1-out-16"
    assert same_until(place, other / FOLDER / "L0H1-out-16") == list(PLAN.saved_steps)
    columns = ["transition", "value", "lo", "hi"]
    pd.testing.assert_frame_equal(rows[columns], held[columns])


CLAMP = ClampHead(0, 1, 16)
ATTENDING = ClampHead(0, 1, 16, "relation", "lag")
NAMES = {CLAMP: "L0H1-out-16", ATTENDING: "L0H1-relation-lag-16"}


def cost(folder: Path, clamps: list[ClampHead], recipe: Recipe, controls: bool = True) -> Any:
    parent = Parent(folder, recipe)
    return parent.cost(with_controls(parent, clamps, controls))


@pytest.fixture(scope="module")
def intervened(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run after two interventions with their controls."""
    folder = Path(shutil.copytree(trained, tmp_path_factory.mktemp("intervened") / "run"))
    rows = intervene(folder, [CLAMP], progress=False)
    assert "relation" not in rows
    rows = intervene(folder, [ATTENDING], progress=False)
    pd.testing.assert_frame_equal(rows, pd.read_parquet(folder / INTERVENTIONS))
    return folder


def test_an_unfinished_run_is_compared_as_far_as_it_has_come(intervened: Path, tmp_path: Path) -> None:
    train(RECIPE, tmp_path, progress=False, until=38)
    assert cost(tmp_path, [CLAMP], RECIPE, controls=False) == (1, 38 - 8, 8)
    intervene(tmp_path, [CLAMP], controls=False, progress=False)
    paired = tmp_path / FOLDER / NAMES[CLAMP]
    assert open_series(paired).steps[-1] == 38
    with pytest.raises(ValueError, match=r"has come to step 38: hold the head from an earlier one on than 38"):
        intervene(tmp_path, [ClampHead(0, 1, 38)], progress=False)
    train(RECIPE, tmp_path, progress=False)
    assert cost(tmp_path, [CLAMP], RECIPE, controls=False) == (1, 40 - 38, 38)
    intervene(tmp_path, [CLAMP], controls=False, progress=False)
    assert str(cost(tmp_path, [CLAMP], RECIPE, controls=False)) == "all runs are there already"
    for step in PLAN.saved_steps:
        same = checkpoint_file(intervened / FOLDER / NAMES[CLAMP], step)
        assert checkpoint_file(paired, step).read_bytes() == same.read_bytes()


@pytest.mark.parametrize("clamp", [CLAMP, ATTENDING], ids=lambda clamp: clamp.kind)
def test_the_paired_run_starts_from_the_state_before_the_clamp_and_is_the_run_up_to_it(
    clamp: ClampHead, intervened: Path, tmp_path: Path
) -> None:
    paired = intervened / FOLDER / NAMES[clamp]
    clamped = dataclasses.replace(RECIPE, plan=dataclasses.replace(PLAN, clamps=(clamp,), states=()))
    train(clamped, tmp_path, progress=False)
    for step in PLAN.saved_steps:
        assert checkpoint_file(paired, step).read_bytes() == checkpoint_file(tmp_path, step).read_bytes()
        same = checkpoint_file(paired, step).read_bytes() == checkpoint_file(intervened, step).read_bytes()
        assert same == (step <= clamp.start)
    metrics = [pd.read_parquet(each / "metrics.parquet") for each in (paired, tmp_path)]
    pd.testing.assert_frame_equal(metrics[0], metrics[1])


def test_every_intervention_has_its_controls_and_stays_in_the_table(intervened: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(intervened, tmp_path / "run"))
    rows = pd.read_parquet(run / INTERVENTIONS)
    assert set(rows["control"]) == {"head", "another head", "random direction"}
    assert {"transition 1"} <= set(rows["transition"])
    assert (rows["lo"] <= rows["value"]).all()
    assert (rows["value"] <= rows["hi"]).all()
    times = {path: path.stat().st_mtime_ns for path in (run / FOLDER).rglob("*.safetensors")}
    more = intervene(run, [CLAMP, dataclasses.replace(CLAMP, kind="weights")], controls=False, progress=False)
    assert set(more["kind"]) == {"out", "kick", "weights", "relation"}
    assert not more.duplicated(["layer", "head", "kind", "relation", "step", "transition"]).any()
    assert (more["relation"].fillna("") == more["kind"].map({"relation": "lag"}).fillna("")).all()
    assert len(more) > len(rows)
    assert more["control"].tolist()[: len(rows)] == rows["control"].tolist()  # earlier rows stay where they were
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    assert open_series(run).steps == PLAN.saved_steps


def test_the_number_of_runs_and_updates_is_known_before(trained: Path) -> None:
    assert cost(trained, [CLAMP], RECIPE) == (
        3,
        3 * (40 - 8),
        8,
    )  # the state of step 8, and none at 16
    assert cost(trained, [CLAMP], RECIPE, controls=False) == (1, 40 - 8, 8)
    assert cost(trained, [dataclasses.replace(CLAMP, start=7)], RECIPE) == (3, 3 * 40, 0)
    every = [dataclasses.replace(CLAMP, head=head) for head in range(3)]  # each is also the control of another
    assert cost(trained, every, RECIPE) == (6, 6 * (40 - 8), 8)


def test_a_kick_that_would_move_nothing_is_no_control_and_refused_before_anything_is_trained(tmp_path: Path) -> None:
    silent = dataclasses.replace(RECIPE, architecture=with_silent_heads())
    train(silent, tmp_path, progress=False, until=8)
    with pytest.raises(ValueError, match=r"zero at step 0: .* Start at a later step, or leave the controls"):
        intervene(tmp_path, [ClampHead(0, 1, 0)], progress=False)
    with pytest.raises(ValueError, match=r"zero at step 0: nothing would move. Start at a later step$"):
        cost(tmp_path, [ClampHead(0, 1, 0, "kick")], silent)
    assert not (tmp_path / FOLDER).exists()
    assert cost(tmp_path, [ClampHead(0, 1, 0)], silent, controls=False).runs == 1


def with_silent_heads() -> Architecture:
    full = architectures.full(4, TASK.n_ctx, n_heads=2, d_model=8, d_mlp=6)
    return dataclasses.replace(full, init=GaussianInit(stds={"*.W_O": 0.0}))


def test_a_paired_run_with_other_bits_before_its_head_is_held_is_refused(tmp_path: Path) -> None:
    train(RECIPE, tmp_path / "run", progress=False, dtype="bfloat16")
    for path in (tmp_path / "run" / STATES, tmp_path / "run" / RESUME):  # nothing says in which dtype it was
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(
        ValueError,
        match=r"L0H1-out-16, a branch of run, gives other bits of .* checkpoint of step 2, .* with the dtype",
    ):
        intervene(tmp_path / "run", [CLAMP], controls=False, progress=False)


def test_a_relation_that_the_task_does_not_have_is_refused_before_anything_is_written(
    trained: Path,
) -> None:
    with pytest.raises(ValueError, match=r"no relation 'I\(3\)' to hold a head at; those that it can be are 'lag'"):
        intervene(trained, [dataclasses.replace(ATTENDING, relation="I(3)")], progress=False)
    assert not (trained / FOLDER).exists()


def test_a_run_with_heads_held_is_no_run_to_compare_with(intervened: Path) -> None:
    with pytest.raises(ValueError, match="intervene in the run that it is compared with"):
        intervene(intervened / FOLDER / "L0H1-out-16", [CLAMP], progress=False)


@dataclasses.dataclass(frozen=True)
class Punctuated(Late):
    """A task whose relations differ in their punctuation alone."""

    def sample(self, n: int, seed: int) -> Batch:
        batch = super().sample(n, seed)
        lag = batch.relations["lag"]
        return dataclasses.replace(batch, relations={"<": lag, ">": lag.roll(1, 2)})


@pytest.mark.slow
def test_relations_that_differ_in_punctuation_alone_are_held_in_runs_of_their_own(tmp_path: Path) -> None:
    recipe = dataclasses.replace(RECIPE, task=Punctuated())
    train(recipe, tmp_path, progress=False)
    clamps = [dataclasses.replace(ATTENDING, relation=relation) for relation in "<>"]
    assert cost(tmp_path, clamps, recipe, controls=False) == (2, 2 * (40 - 8), 8)
    for one in ([clamps[0]], clamps, clamps[::-1]):
        rows = intervene(tmp_path, one, recipe=recipe, controls=False, progress=False)
    assert sorted(rows["relation"].unique()) == ["<", ">"]
    places = sorted(path for path in (tmp_path / FOLDER).iterdir() if (path / RUN).exists())
    held = [open_series(place).weights(40)["blocks.0.attn.held_keys"][1] for place in places]
    relations = recipe.task.sample(1, 0).relations
    assert all(torch.equal(keys, relations[name][0]) for keys, name in zip(held, "<>", strict=True))
    assert str(cost(tmp_path, clamps, recipe, controls=False)) == "all runs are there already"


def test_where_no_transition_comes_after_the_start_nothing_is_trained(tmp_path: Path) -> None:
    recipe = dataclasses.replace(RECIPE, plan=dataclasses.replace(PLAN, cooldown=1, learning_rate=0.0))
    train(recipe, tmp_path / "still", progress=False)
    with pytest.raises(ValueError, match="the answer names no transition of still after step 16 that"):
        intervene(tmp_path / "still", [CLAMP], controls=False, progress=False)
    assert [path.name for path in (tmp_path / "still" / FOLDER).iterdir()] == ["parts"]


@pytest.mark.slow
def test_a_run_that_was_densified_since_is_compared_where_it_is_saved_now(intervened: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(intervened, tmp_path / "run"))
    densify(run, (26, 30), 1, progress=False)
    before = pd.read_parquet(run / INTERVENTIONS)
    assert cost(run, [CLAMP], RECIPE, controls=False) == (1, 40, 0)  # a paired run keeps no states
    after = intervene(run, [CLAMP], controls=False, progress=False)
    assert open_series(run / FOLDER / NAMES[CLAMP]).steps == (*range(0, 26, 2), *range(26, 30), *range(30, 41, 2))
    assert len(after) == len(before)
    clamped = dataclasses.replace(RECIPE, plan=dataclasses.replace(PLAN, clamps=(CLAMP,), save=range(40), states=()))
    train(clamped, tmp_path / "fine", progress=False)
    files = [checkpoint_file(each, 29).read_bytes() for each in (run / FOLDER / "L0H1-out-16", tmp_path / "fine")]
    assert files[0] == files[1]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("states", [(), (8,)], ids=["from step 0", "from a state"])
def test_a_run_in_bfloat16_is_held_in_it_and_in_nothing_else(states: tuple[int, ...], tmp_path: Path) -> None:
    recipe = dataclasses.replace(RECIPE, plan=dataclasses.replace(PLAN, states=states))
    train(recipe, tmp_path / "run", progress=False, dtype="bfloat16")
    with pytest.raises(ValueError, match=r"run is trained in bfloat16, .* give --dtype bfloat16, in Python dtype="):
        intervene(tmp_path / "run", [CLAMP], controls=False, progress=False)
    assert not (tmp_path / "run" / FOLDER).exists()
    assert len(intervene(tmp_path / "run", [CLAMP], controls=False, progress=False, dtype="bfloat16"))


@pytest.mark.parametrize("clamps", [[], [(0, 1)], ClampHead(layer=0, head=1, start=8)], ids=["none", "pair", "one"])
def test_what_is_no_list_of_clamps_is_refused_with_one_that_is(clamps: Any, tmp_path: Path) -> None:
    with unchecked_types(), pytest.raises(ValueError, match=r"clamps are a list, as in \[ClampHead\(layer=0, head=1"):
        intervene(tmp_path, clamps)
