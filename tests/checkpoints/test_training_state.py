"""The state of a training: a damaged file of it is named, and never resumed from."""

import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from stagewise.checkpoints import training_state
from stagewise.checkpoints.run_folder import METRICS, RESUME, RUN, checkpoint_file
from stagewise.checkpoints.series import open_series
from stagewise.checkpoints.training_state import is_complete
from stagewise.checkpoints.writing import held
from stagewise.recipe import Recipe
from stagewise.training import train


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
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(60)
    yield tmp_path / "run"
    done.set()
    thread.join()


def test_a_second_training_in_a_folder_ends_and_says_who_is_first(holder: Path, small_recipe: Recipe) -> None:
    with pytest.raises(BlockingIOError, match=r"process \d+ on .* trains since .* here"):
        train(small_recipe, holder, progress=False)
    assert not (holder / RUN).exists()


def test_a_state_that_was_loaded_has_the_bytes_of_one_that_was_not(tmp_path: Path) -> None:
    weights = [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2))]
    groups = [{"params": [weight], "lr": rate} for weight, rate in zip(weights, (0.1, 0.2), strict=True)]
    written = torch.optim.AdamW(groups)
    torch.cat(list(weights)).sum().backward()  # type: ignore[no-untyped-call]
    written.step()
    loaded = torch.optim.AdamW([{"params": [torch.nn.Parameter(weight.detach())]} for weight in weights])
    training_state._save_state({"optimiser": written.state_dict()}, tmp_path / "one")
    loaded.load_state_dict(torch.load(tmp_path / "one")["optimiser"])
    training_state._save_state({"optimiser": loaded.state_dict()}, tmp_path / "other")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
