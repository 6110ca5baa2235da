"""Training: what a finished run holds, where it goes and on which device it was trained."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise import models as model
from stagewise.architectures import OneHotInit, minimal
from stagewise.checkpoints._checksums import LIST, listed
from stagewise.checkpoints._writing import LOCK
from stagewise.checkpoints.run_folder import METRICS, RESUME, RUN, STATES, checkpoint_file, is_finished
from stagewise.checkpoints.series import open_series
from stagewise.recipe import Recipe
from stagewise.training import prepare, train
from tests.conftest import unchecked_types
from tests.fixtures.interruptible import FULL, PLAN, RECIPES, TASK, Interruptible

BFLOAT16 = 0.03
"""Losses whose products have eight bits, 0.4 % each."""


def test_steps_count_updates_and_the_ends_are_saved(finished: dict[str, Path]) -> None:
    series = open_series(finished["adamw full"])
    assert series.steps == (0, 3, 5, 8)
    metrics = pd.read_parquet(finished["adamw full"] / METRICS)
    assert metrics["step"].tolist() == list(range(8))
    assert np.isfinite(metrics.to_numpy()).all()


def test_step_zero_is_the_initialisation(finished: dict[str, Path]) -> None:
    start = model.weights(model.build(FULL, seed=0))
    saved = open_series(finished["adamw full"]).weights(0)
    assert start.keys() == saved.keys()
    assert all(torch.equal(start[name], saved[name]) for name in start)


def test_a_finished_run_is_opened_and_not_trained_again(
    finished: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(finished["adamw full"], tmp_path / "copy"))
    times = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    monkeypatch.setattr(Interruptible, "stop_at", 0)
    assert train(RECIPES["adamw full"], folder, progress=False).steps == (0, 3, 5, 8)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == times


def test_a_run_goes_so_far_for_now_and_on_with_the_same_bits(finished: dict[str, Path], tmp_path: Path) -> None:
    recipe = RECIPES["adamw full"]
    assert train(recipe, tmp_path, progress=False, until=5).steps == (0, 3, 5)
    assert train(recipe, tmp_path, progress=False, until=3).steps == (0, 3, 5)
    assert not is_finished(tmp_path)
    train(recipe, tmp_path, progress=False)
    for step in (0, 3, 5, 8):
        assert (
            checkpoint_file(tmp_path, step).read_bytes() == checkpoint_file(finished["adamw full"], step).read_bytes()
        )
    with pytest.raises(ValueError, match="`until` is a step that the plan saves, up to 8; got 4"):
        train(recipe, tmp_path / "other", progress=False, until=4)


def test_only_the_heads_of_the_minimal_model_move(finished: dict[str, Path]) -> None:
    series = open_series(finished["adamw minimal"])
    first, last = series.weights(0), series.weights(8)
    moved = {name for name in first if not torch.equal(first[name], last[name])}
    assert moved == {"blocks.0.attn.W_Q", "blocks.0.attn.W_V"}


def test_the_padding_of_the_minimal_model_stays_exactly_zero(finished: dict[str, Path]) -> None:
    last, width = open_series(finished["adamw minimal"]).weights(8), 4 + TASK.n_ctx
    assert not last["blocks.0.attn.W_Q"][:, width:].any()
    assert not last["blocks.0.attn.W_V"][:, width:].any()
    assert not last["blocks.0.attn.W_V"][:, :, 4:].any()


def test_heads_that_are_one_by_symmetry_stay_one_however_the_optimiser_rounds() -> None:
    init = OneHotInit(query_scale=0.0)
    training = prepare(Recipe(TASK, minimal(TASK.d_vocab, TASK.n_ctx, 3, init), RECIPES["adamw minimal"].plan))
    weights = model.weights(training.model)

    def part(*_: object) -> None:
        state = model.weights(training.model)
        for name in training.alike:
            state[name][2] *= 1 + 1e-6
        model.load(training.model, state)

    training.optimiser.register_step_post_hook(part)
    for _ in training.steps(0, 5, []):
        weights = model.weights(training.model)
        assert all(torch.equal(head, weights[name][0]) for name in training.alike for head in weights[name])
    assert len(training.alike) == 2
    assert weights["blocks.0.attn.W_V"].any()


def test_a_folder_of_another_recipe_is_refused_and_left_alone(finished: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(finished["adamw full"], tmp_path / "copy"))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    other = Recipe(dataclasses.replace(TASK, importance=2.0), FULL, dataclasses.replace(PLAN, batch_size=7))
    with pytest.raises(ValueError, match=r"plan.batch_size: 7 requested, 6 on disk\n  task.importance: 2.0 requested"):
        train(other, folder, progress=False)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_the_run_folder_holds_what_the_design_says(finished: dict[str, Path]) -> None:
    there = {path.relative_to(finished["sgd"]).as_posix() for path in finished["sgd"].rglob("*") if path.is_file()}
    checkpoints = {f"checkpoints/step-{step:08d}.safetensors" for step in (0, 3, 5, 8)}
    states = {f"{STATES}/step-{step:08d}.pt" for step in (3, 5)}
    assert there == {RUN, METRICS, RESUME, LOCK, LIST, f"checkpoints/{LIST}", f"{STATES}/{LIST}", *checkpoints, *states}
    listing = {f"{path.parent.name}/{name}" for path in finished["sgd"].rglob(LIST) for name in listed(path.parent)}
    assert listing == {f"sgd/{name}" for name in (RUN, METRICS, RESUME)} | checkpoints | states


NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NO_GPU)])
@pytest.mark.parametrize("name", ["adamw minimal", "adamw full"])
def test_training_in_bfloat16_keeps_float32_weights_near_those_of_float32(
    name: str, device: str, finished: dict[str, Path], tmp_path: Path
) -> None:
    series = train(RECIPES[name], tmp_path / "run", progress=False, device=device, dtype="bfloat16")
    whole = open_series(finished[name])
    losses = [pd.read_parquet(folder / METRICS)["loss"].to_numpy() for folder in (tmp_path / "run", finished[name])]
    assert (losses[0] != losses[1]).any()
    np.testing.assert_allclose(losses[0], losses[1], rtol=BFLOAT16)
    for weight, other in zip(series.weights(8).values(), whole.weights(8).values(), strict=True):
        assert weight.dtype == torch.float32
        assert weight.shape == other.shape


@NO_GPU
@pytest.mark.parametrize("name", RECIPES)
def test_training_on_a_gpu_gives_the_losses_of_the_cpu(name: str, finished: dict[str, Path], tmp_path: Path) -> None:
    train(RECIPES[name], tmp_path / "run", progress=False, device="cuda")
    losses = [pd.read_parquet(folder / METRICS)["loss"].to_numpy() for folder in (tmp_path / "run", finished[name])]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)


def test_a_dtype_or_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with unchecked_types(), pytest.raises(ValueError, match="dtype is one of float32, bfloat16, got 'float16'"):
        train(RECIPES["sgd"], tmp_path / "run", progress=False, dtype="float16")  # type: ignore[arg-type]
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match='torch sees no device "cuda" here'):
            train(RECIPES["sgd"], tmp_path / "run", progress=False, device="cuda")
    assert not (tmp_path / "run").exists()


def test_every_update_is_logged_where_somebody_asks(small_recipe: Recipe, tmp_path: Path) -> None:
    logged: list[dict[str, int | float]] = []
    train(small_recipe, tmp_path / "run", progress=False, log=logged.append)
    assert [entry["step"] for entry in logged] == [*range(small_recipe.plan.steps)]
    recorded = pd.read_parquet(tmp_path / "run" / METRICS)
    assert [entry["loss"] for entry in logged] == pytest.approx(recorded["loss"].tolist())
