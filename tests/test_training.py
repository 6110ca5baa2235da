"""Training: a run killed anywhere and resumed has the bits of one that was never killed."""

import dataclasses
import errno
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise import architecture
from stagewise import models as model
from stagewise.checkpoints.checksums import LIST, listed
from stagewise.checkpoints.run_folder import METRICS, RESUME, RUN, STATES
from stagewise.checkpoints.series import open_series
from stagewise.checkpoints.writing import LOCK, write
from stagewise.recipe import Recipe, TrainPlan
from stagewise.task import Batch
from stagewise.tasks import MarkovChain
from stagewise.training import _check_device, train

FLOAT32 = 1e-6
"""Weights of order one after a few float32 updates, sums in another order."""

BFLOAT16 = 0.03
"""Losses whose products have eight bits, 0.4 % each."""


@dataclasses.dataclass(frozen=True)
class Interruptible(MarkovChain):
    """The Markov chain, whose data stream stops the process at a step: Ctrl-C, a lost node, a power cut."""

    stop_at: ClassVar[int | None] = None

    def stream(self, seed: int) -> Callable[[int, int], Batch]:
        draw = super().stream(seed)

        def interrupted(step: int, size: int) -> Batch:
            if step == type(self).stop_at:
                raise KeyboardInterrupt(f"stopped at {step}")
            return draw(step, size)

        return interrupted


TASK = Interruptible(d_vocab=4, spans=(1, 1), length=3, n_sequences=40)
FULL = architecture.full(4, TASK.n_ctx, n_heads=2, d_model=8, d_mlp=6)
MINIMAL = architecture.minimal(4, TASK.n_ctx, n_heads=2)
PLAN = TrainPlan(steps=8, batch_size=6, learning_rate=0.05, save=frozenset({3, 5}))

RECIPES = {
    "adamw minimal": Recipe(TASK, MINIMAL, PLAN),
    "adamw full": Recipe(TASK, FULL, PLAN),
    "sgd": Recipe(TASK, FULL, dataclasses.replace(PLAN, optimiser="sgd", momentum=0.9, rates={"*.W_E": 0.2})),
    "warm-up": Recipe(TASK, FULL, dataclasses.replace(PLAN, warmup=4, cooldown=3)),
    "fresh data": Recipe(dataclasses.replace(TASK, n_sequences=None), MINIMAL, PLAN),
}


def contents(folder: Path) -> dict[str, Any]:
    """Every checkpoint's bytes and the metrics."""
    files = {path.name: path.read_bytes() for path in (folder / "checkpoints").glob("*.safetensors")}
    return {**files, METRICS: pd.read_parquet(folder / METRICS).to_dict("list")}


def interrupt(recipe: Recipe, folder: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Interruptible, "stop_at", step)
        with pytest.raises(KeyboardInterrupt, match=f"stopped at {step}"):
            train(recipe, folder, progress=False)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each recipe trained without interruption."""
    folder = tmp_path_factory.mktemp("finished")
    for name, recipe in RECIPES.items():
        train(recipe, folder / name, progress=False)
    return {name: folder / name for name in RECIPES}


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("steps", [(0,), (1,), (3,), (4,), (7,), (2, 4, 6)], ids=str)
def test_a_run_stopped_and_resumed_has_the_bits_of_one_never_stopped(
    name: str,
    steps: tuple[int, ...],
    finished: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for step in steps:
        interrupt(RECIPES[name], tmp_path, step, monkeypatch)
    train(RECIPES[name], tmp_path, progress=False)
    assert contents(tmp_path) == contents(finished[name])


def test_a_run_whose_optimiser_state_is_gone_starts_over_with_the_same_bits(
    finished: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(RECIPES["adamw full"], tmp_path, 6, monkeypatch)
    (tmp_path / RESUME).unlink()
    train(RECIPES["adamw full"], tmp_path, progress=False)
    assert contents(tmp_path) == contents(finished["adamw full"])


def test_a_run_begun_under_another_transformer_lens_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(RECIPES["sgd"], tmp_path, 6, monkeypatch)
    state = torch.load(tmp_path / RESUME)
    write(tmp_path / RESUME, lambda partial: torch.save({**state, "native": not state["native"]}, partial))
    with pytest.raises(ValueError, match=r"begun on another major version of transformer-lens.*or delete resume.pt"):
        train(RECIPES["sgd"], tmp_path, progress=False)


def test_a_run_whose_task_drew_other_sequences_is_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(RECIPES["sgd"], tmp_path, 6, monkeypatch)
    sample = MarkovChain.sample
    monkeypatch.setattr(MarkovChain, "sample", lambda task, n, seed: sample(task, n, seed + 1))
    with pytest.raises(ValueError, match=r"task drew other sequences from the same seed.*or delete resume.pt"):
        train(RECIPES["sgd"], tmp_path, progress=False)


def test_a_run_whose_checkpoints_are_gone_starts_over_with_the_same_bits(
    finished: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(RECIPES["adamw full"], tmp_path, 6, monkeypatch)
    shutil.rmtree(tmp_path / "checkpoints")
    train(RECIPES["adamw full"], tmp_path, progress=False)
    assert contents(tmp_path) == contents(finished["adamw full"])


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


def test_a_folder_of_another_recipe_is_refused_and_left_alone(finished: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(finished["adamw full"], tmp_path / "copy"))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    other = Recipe(dataclasses.replace(TASK, importance=2.0), FULL, dataclasses.replace(PLAN, batch_size=7))
    with pytest.raises(ValueError, match=r"plan.batch_size: 7 requested, 6 on disk\n  task.importance: 2.0 requested"):
        train(other, folder, progress=False)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("writes", range(0, 26, 2))
def test_a_full_disk_is_called_so_and_costs_nothing_that_was_there(
    writes: int, finished: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []
    fsync = os.fsync

    def full_after_some(descriptor: int) -> None:
        if len(done) == writes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)
        done.append(descriptor)

    recipe, whole = RECIPES["adamw full"], finished["adamw full"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_after_some)
        with pytest.raises(OSError, match="the disk is full"):
            train(recipe, tmp_path, progress=False)
    assert not list(tmp_path.rglob("*.partial"))
    for path in tmp_path.rglob("*.safetensors"):
        assert path.read_bytes() == (whole / "checkpoints" / path.name).read_bytes()
    train(recipe, tmp_path, progress=False)
    assert contents(tmp_path) == contents(whole)


WRITES = (4, 9)
KILLED = """
import os, signal
from pathlib import Path
from stagewise import architecture, models
from stagewise.recipe import Recipe, TrainPlan
from stagewise.tasks import MarkovChain
from stagewise.training import _check_device, train

def fsync(descriptor):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
task = MarkovChain(d_vocab=4, spans=(1, 1), length=3, n_sequences=40)
plan = TrainPlan(steps=8, batch_size=6, learning_rate=0.05, save=frozenset({{3, 5}}))
recipe = Recipe(task, architecture.minimal(4, task.n_ctx, n_heads=2), plan)
models.build(recipe.architecture)  # imports what takes long, once for all
for left in {all_writes}:
    folder = Path({folder!r}) / str(left)
    if not (child := os.fork()):
        os.fsync = fsync
        train(recipe, folder, progress=False)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs that were killed after some writes, each in a process of its own; torch is imported once."""
    folder = tmp_path_factory.mktemp("killed")
    script = KILLED.format(all_writes=WRITES, folder=str(folder))
    # One thread as in this process: sums over threads are taken in another order.
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)
    return folder


@pytest.mark.slow  # tests/torture kills at random moments, without importing torch anew
@pytest.mark.parametrize("writes", WRITES)
def test_a_killed_process_resumes_with_the_same_bits(writes: int, killed: Path, tmp_path: Path) -> None:
    task = MarkovChain(d_vocab=4, spans=(1, 1), length=3, n_sequences=40)
    recipe, folder = Recipe(task, MINIMAL, PLAN), killed / str(writes)
    assert len(list(folder.rglob("*.partial"))) == 1
    train(recipe, folder, progress=False)
    train(recipe, tmp_path / "whole", progress=False)
    assert contents(folder) == contents(tmp_path / "whole")


def test_the_run_folder_holds_what_the_design_says(finished: dict[str, Path]) -> None:
    there = {path.relative_to(finished["sgd"]).as_posix() for path in finished["sgd"].rglob("*") if path.is_file()}
    checkpoints = {f"checkpoints/step-{step:08d}.safetensors" for step in (0, 3, 5, 8)}
    states = {f"{STATES}/step-{step:08d}.pt" for step in (3, 5)}
    assert there == {RUN, METRICS, RESUME, LOCK, LIST, f"checkpoints/{LIST}", f"{STATES}/{LIST}", *checkpoints, *states}
    listing = {f"{path.parent.name}/{name}" for path in finished["sgd"].rglob(LIST) for name in listed(path.parent)}
    assert listing == {f"sgd/{name}" for name in (RUN, METRICS, RESUME)} | checkpoints | states


def test_a_run_begun_with_another_pass_is_not_resumed_but_is_opened_when_finished(
    finished: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(RECIPES["sgd"], tmp_path / "unfinished", 6, monkeypatch)
    folder = Path(shutil.copytree(finished["sgd"], tmp_path / "finished"))
    for resume in (tmp_path / "unfinished" / RESUME, folder / RESUME):
        state = torch.load(resume)
        assert state.pop("pass").startswith("fused")
        write(resume, functools.partial(torch.save, state))
    with pytest.raises(ValueError, match=r"takes sums in another order.*or delete resume.pt"):
        train(RECIPES["sgd"], tmp_path / "unfinished", progress=False)
    assert train(RECIPES["sgd"], folder, progress=False).steps == (0, 3, 5, 8)


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
    with pytest.raises(ValueError, match="dtype is one of float32, bfloat16, got 'float16'"):
        _check_device("cpu", "float16")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match='no CUDA device here, got device = "cuda"'):
            train(RECIPES["sgd"], tmp_path / "run", progress=False, device="cuda")
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_resumed_in_another_dtype(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(RECIPES["sgd"], tmp_path, 6, monkeypatch)
    with pytest.raises(ValueError, match="with a dtype, that takes sums in another order"):
        train(RECIPES["sgd"], tmp_path, progress=False, dtype="bfloat16")


def test_every_update_is_logged_where_somebody_asks(small_recipe: Recipe, tmp_path: Path) -> None:
    logged: list[dict[str, int | float]] = []
    train(small_recipe, tmp_path / "run", progress=False, log=logged.append)
    assert [entry["step"] for entry in logged] == [*range(small_recipe.plan.steps)]
    recorded = pd.read_parquet(tmp_path / "run" / METRICS)
    assert [entry["loss"] for entry in logged] == pytest.approx(recorded["loss"].tolist())
