"""The state of a training: a damaged file of it is named, and never resumed from."""

import dataclasses
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stagewise.checkpoints._training_state import is_complete, state_steps
from stagewise.checkpoints._writing import held, write
from stagewise.checkpoints.run_folder import METRICS, RESUME, RUN, checkpoint_file, state_file
from stagewise.checkpoints.series import open_series
from stagewise.recipe import Recipe
from stagewise.training import train
from tests.fixtures.leftover import left_over


@pytest.fixture
def copy(small_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_folder, tmp_path / "copy"))


def file_called(name: str, folder: Path) -> Path:
    return checkpoint_file(folder, int(name[5:])) if name.startswith("step ") else folder / name


def spoil(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[random.Random(0).randrange(len(content))] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", ["bit", "truncated"])
@pytest.mark.parametrize("name", ["step 0", "step 2", "step 6", METRICS, RUN])
def test_a_finished_run_with_a_damaged_file_says_so(name: str, damage: str, copy: Path, small_recipe: Recipe) -> None:
    path = file_called(name, copy)
    if damage == "bit":
        spoil(path)
    else:
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=rf"{path.name} is damaged: its .* [Rr]estore it") as refused:
        train(small_recipe, copy, progress=False)
    assert "\n" not in str(refused.value)


def test_a_damaged_state_that_only_a_replay_reads_is_named_too(copy: Path, small_recipe: Recipe) -> None:
    path = state_file(copy, state_steps(copy)[0])
    intact = path.read_bytes()
    spoil(path)
    with pytest.raises(ValueError, match=rf"{path.name} is damaged: .* Delete it: a replay then starts"):
        train(small_recipe, copy, progress=False)
    checkpoint_file(copy, small_recipe.plan.steps).unlink()
    train(small_recipe, copy, progress=False)  # from the start, which makes it again
    assert path.read_bytes() == intact


def test_a_run_that_was_killed_in_its_last_save_is_saved_to_its_end(copy: Path, small_recipe: Recipe) -> None:
    last, earlier = (copy / RESUME).read_bytes(), state_file(copy, state_steps(copy)[-1])
    write(copy / RESUME, lambda partial: shutil.copyfile(earlier, partial))
    train(small_recipe, copy, progress=False)
    assert (copy / RESUME).read_bytes() == last


def test_a_run_that_was_killed_behind_its_last_save_keeps_no_temporary_folder(copy: Path, small_recipe: Recipe) -> None:
    leftover = left_over(copy / RESUME)
    train(small_recipe, copy, progress=False)
    assert not leftover.exists()


def test_a_finished_run_needs_no_state_to_resume_from(copy: Path, small_recipe: Recipe) -> None:
    (copy / RESUME).unlink()
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*")}
    assert train(small_recipe, copy, progress=False).steps == open_series(copy).steps
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*")} == before


@pytest.mark.parametrize("name", ["step 0", "step 4", METRICS, RESUME])
def test_an_unfinished_run_is_never_resumed_from_a_damaged_file(name: str, copy: Path, small_recipe: Recipe) -> None:
    (copy / RESUME).unlink()
    checkpoint_file(copy, 6).unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stagewise.training._check_model", stop_at_six)
        with pytest.raises(KeyboardInterrupt, match="stopped"):
            train(small_recipe, copy, progress=False)
    spoil(path := file_called(name, copy))
    with pytest.raises(ValueError, match=rf"{path.name} is damaged: .* train again"):
        train(small_recipe, copy, progress=False)
    path.unlink()
    train(small_recipe, copy, progress=False)
    assert is_complete(copy, small_recipe.plan)


def stop_at_six(step: int, *_: object) -> None:
    if step == 6:
        raise KeyboardInterrupt("stopped")


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Path]:
    """A folder in which another thread, as another process would, is training."""
    inside, done = threading.Event(), threading.Event()

    def hold() -> None:
        with held(tmp_path / "run", "trains"):
            inside.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    yield tmp_path / "run"
    done.set()
    thread.join()


def test_a_second_training_in_a_folder_ends_and_says_who_is_first(holder: Path, small_recipe: Recipe) -> None:
    with pytest.raises(BlockingIOError, match=r"process \d+ on .* trains since .* here"):
        train(small_recipe, holder, progress=False)
    assert not (holder / RUN).exists()


def test_a_kept_state_has_the_same_bytes_whether_or_not_the_run_was_resumed(
    small_recipe: Recipe, tmp_path: Path
) -> None:
    recipe = dataclasses.replace(small_recipe, plan=dataclasses.replace(small_recipe.plan, states=(2, 4)))
    train(recipe, tmp_path / "whole", progress=False)

    def stop(numbers: object) -> None:
        if (tmp_path / "resumed" / RESUME).exists() and state_steps(tmp_path / "resumed"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "resumed", progress=False, log=stop)
    assert state_steps(tmp_path / "resumed") == [2]
    train(recipe, tmp_path / "resumed", progress=False)
    one, other = (state_file(tmp_path / name, 4).read_bytes() for name in ("whole", "resumed"))
    assert one == other
