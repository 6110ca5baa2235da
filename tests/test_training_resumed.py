"""Training: a run killed anywhere and resumed has the bits of one that was never killed."""

import errno
import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from stagewise.checkpoints._writing import write
from stagewise.checkpoints.run_folder import RESUME
from stagewise.recipe import Recipe
from stagewise.tasks import MarkovChain
from stagewise.training import train
from tests.fixtures.interruptible import MINIMAL, PLAN, RECIPES, contents, interrupt


@pytest.mark.one_of(2)
@pytest.mark.each_value
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


@pytest.mark.one_of(4)
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
from stagewise import architectures, models
from stagewise.recipe import Recipe, TrainPlan
from stagewise.tasks import MarkovChain
from stagewise.training import train

def fsync(descriptor):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
task = MarkovChain(d_vocab=4, spans=(1, 1), length=3, n_sequences=40)
plan = TrainPlan(steps=8, batch_size=6, learning_rate=0.05, save=frozenset({{3, 5}}))
recipe = Recipe(task, architectures.minimal(4, task.n_ctx, n_heads=2), plan)
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


def test_a_run_is_not_resumed_in_another_dtype(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(RECIPES["sgd"], tmp_path, 6, monkeypatch)
    with pytest.raises(ValueError, match=r"is trained in float32, and in bfloat16 it would .* give --dtype float32"):
        train(RECIPES["sgd"], tmp_path, progress=False, dtype="bfloat16")
