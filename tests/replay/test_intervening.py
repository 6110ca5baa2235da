"""Interventions: a paired run is the run itself up to the clamp, and its delays are kept beside the table."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from stagewise import architectures
from stagewise.architecture import Architecture
from stagewise.checkpoints.run_folder import INTERVENTIONS, RESUME, RUN, STATES, checkpoint_file
from stagewise.checkpoints.series import open_series
from stagewise.init import GaussianInit
from stagewise.plan import ClampHead, TrainPlan
from stagewise.recipe import Recipe
from stagewise.replay import _branches
from stagewise.replay._branches import FOLDER
from stagewise.replay._matched_controls import with_controls
from stagewise.replay.densifying import densify
from stagewise.replay.intervening import intervene
from stagewise.task import Batch
from stagewise.tasks import MarkovChain
from stagewise.training import train
from tests.conftest import unchecked_types

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked")

TASK = MarkovChain(d_vocab=4, spans=(1, 1), length=6, n_sequences=200)
PLAN = TrainPlan(steps=32, batch_size=32, learning_rate=0.1, save=range(0, 32, 8), states=(8,))
RECIPE = Recipe(TASK, architectures.minimal(4, TASK.n_ctx, n_heads=3), PLAN)
CLAMP = ClampHead(0, 1, 16)
ATTENDING = ClampHead(0, 1, 16, "relation", "I(2)")
NAMES = {CLAMP: "L0H1-out-16", ATTENDING: "L0H1-relation-I-2-16"}


def cost(folder: Path, clamps: list[ClampHead], recipe: Recipe, controls: bool = True) -> Any:
    return _branches.cost(folder, with_controls(clamps, folder, recipe, controls))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(RECIPE, folder, progress=False)
    return folder


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
    train(RECIPE, tmp_path, progress=False, until=24)
    assert cost(tmp_path, [CLAMP], RECIPE, controls=False) == (1, 24 - 8, 8)
    intervene(tmp_path, [CLAMP], controls=False, progress=False)
    paired = tmp_path / FOLDER / NAMES[CLAMP]
    assert open_series(paired).steps[-1] == 24
    with pytest.raises(ValueError, match=r"has come to step 24: hold the head from an earlier one on than 24"):
        intervene(tmp_path, [ClampHead(0, 1, 24)], progress=False)
    train(RECIPE, tmp_path, progress=False)
    assert cost(tmp_path, [CLAMP], RECIPE, controls=False) == (1, 32 - 24, 24)
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
    assert {"loss 0.5"} <= set(rows["transition"])
    assert (rows["lo"] <= rows["value"]).all()
    assert (rows["value"] <= rows["hi"]).all()
    times = {path: path.stat().st_mtime_ns for path in (run / FOLDER).rglob("*.safetensors")}
    more = intervene(run, [CLAMP, dataclasses.replace(CLAMP, kind="weights")], controls=False, progress=False)
    assert set(more["kind"]) == {"out", "kick", "weights", "relation"}
    assert not more.duplicated(["layer", "head", "kind", "relation", "step", "transition"]).any()
    assert (more["relation"].fillna("") == more["kind"].map({"relation": "I(2)"}).fillna("")).all()
    assert len(more) > len(rows)
    assert more["control"].tolist()[: len(rows)] == rows["control"].tolist()  # earlier rows stay where they were
    assert all(path.stat().st_mtime_ns == time for path, time in times.items())
    assert open_series(run).steps == PLAN.saved_steps


def test_the_number_of_runs_and_updates_is_known_before(trained: Path) -> None:
    assert cost(trained, [CLAMP], RECIPE) == (3, 3 * (32 - 8), 8)  # the state of step 8, and none at 16
    assert cost(trained, [CLAMP], RECIPE, controls=False) == (1, 32 - 8, 8)
    assert cost(trained, [dataclasses.replace(CLAMP, start=7)], RECIPE) == (3, 3 * 32, 0)
    every = [dataclasses.replace(CLAMP, head=head) for head in range(3)]  # each is also the control of another
    assert cost(trained, every, RECIPE) == (6, 6 * (32 - 8), 8)


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
    with pytest.raises(ValueError, match=r"L0H1-out-16 has other bits of .* than run at step 8, .* with the dtype"):
        intervene(tmp_path / "run", [CLAMP], controls=False, progress=False)


def test_a_relation_that_the_task_does_not_have_is_refused_before_anything_is_written(trained: Path) -> None:
    with pytest.raises(ValueError, match=r"no relation 'I\(3\)' to hold a head at; those that it can be are 'I\(1\)'"):
        intervene(trained, [dataclasses.replace(ATTENDING, relation="I(3)")], progress=False)
    assert not (trained / FOLDER).exists()


def test_a_run_with_heads_held_is_no_run_to_compare_with(intervened: Path) -> None:
    with pytest.raises(ValueError, match="intervene in the run that it is compared with"):
        intervene(intervened / FOLDER / "L0H1-out-16", [CLAMP], progress=False)


@dataclasses.dataclass(frozen=True)
class Punctuated(MarkovChain):
    """A task whose relations differ in their punctuation alone."""

    def sample(self, n: int, seed: int) -> Batch:
        batch = super().sample(n, seed)
        return dataclasses.replace(batch, relations={"<": batch.relations["I(1)"], ">": batch.relations["I(2)"]})


@pytest.mark.slow
def test_relations_that_differ_in_punctuation_alone_are_held_in_runs_of_their_own(tmp_path: Path) -> None:
    recipe = dataclasses.replace(RECIPE, task=Punctuated(d_vocab=4, spans=(1, 1), length=6, n_sequences=200))
    train(recipe, tmp_path, progress=False)
    clamps = [dataclasses.replace(ATTENDING, relation=relation) for relation in "<>"]
    assert cost(tmp_path, clamps, recipe, controls=False) == (2, 2 * (32 - 8), 8)
    for one in ([clamps[0]], clamps, clamps[::-1]):
        rows = intervene(tmp_path, one, recipe=recipe, controls=False, progress=False)
    assert sorted(rows["relation"].unique()) == ["<", ">"]
    places = sorted(path for path in (tmp_path / FOLDER).iterdir() if (path / RUN).exists())
    held = [open_series(place).weights(32)["blocks.0.attn.held_keys"][1] for place in places]
    relations = recipe.task.sample(1, 0).relations
    assert all(torch.equal(keys, relations[name][0]) for keys, name in zip(held, "<>", strict=True))
    assert str(cost(tmp_path, clamps, recipe, controls=False)) == "all runs are there already"


def test_where_no_transition_comes_after_the_start_nothing_is_trained(trained: Path, tmp_path: Path) -> None:
    recipe = dataclasses.replace(RECIPE, plan=dataclasses.replace(PLAN, cooldown=1, learning_rate=0.0))
    train(recipe, tmp_path / "still", progress=False)
    with pytest.raises(ValueError, match=r"no transition of still comes after step 16: up to .* step 32, its loss"):
        intervene(tmp_path / "still", [CLAMP], controls=False, progress=False)
    assert [path.name for path in (tmp_path / "still" / FOLDER).iterdir()] == ["parts"]


@pytest.mark.slow
def test_a_run_that_was_densified_since_is_compared_where_it_is_saved_now(intervened: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(intervened, tmp_path / "run"))
    densify(run, (16, 24), 2, progress=False)
    before = pd.read_parquet(run / INTERVENTIONS)
    assert cost(run, [CLAMP], RECIPE, controls=False) == (1, 24, 0)  # a paired run keeps no states
    after = intervene(run, [CLAMP], controls=False, progress=False)
    assert open_series(run / FOLDER / NAMES[CLAMP]).steps == (0, 8, 16, 18, 20, 22, 24, 32)
    assert len(after) == len(before)
    clamped = dataclasses.replace(RECIPE, plan=dataclasses.replace(PLAN, clamps=(CLAMP,), save=range(32), states=()))
    train(clamped, tmp_path / "fine", progress=False)
    files = [checkpoint_file(each, 20).read_bytes() for each in (run / FOLDER / "L0H1-out-16", tmp_path / "fine")]
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
