"""Checkpoint series: lazy, ordered, and clear about what is missing."""

import os
import shutil
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from stagewise import architectures, models
from stagewise.checkpoints.run_folder import checkpoint_file
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.recipe import Recipe
from stagewise.training import train
from tests.conftest import unchecked_types

MODEL = architectures.minimal(3, 4)


def in_memory(*steps: int) -> tuple[CheckpointSeries, list[int]]:
    """A series whose weights say their step, and the list of steps loaded so far."""
    loaded: list[int] = []

    def load(step: int) -> dict[str, torch.Tensor]:
        loaded.append(step)
        return {"step": torch.tensor(step)}

    return CheckpointSeries("run", MODEL, steps, load), loaded


@pytest.fixture
def folder(small_folder: Path, tmp_path: Path) -> Path:
    """A copy of the small run, to be damaged."""
    return Path(shutil.copytree(small_folder, tmp_path / "copy"))


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    series, loaded = in_memory(0, 5, 9)
    assert len(series) == 3
    assert not loaded
    checkpoints = iter(series)
    assert not loaded
    assert next(checkpoints) == (0, {"step": torch.tensor(0)})
    assert loaded == [0]
    assert [step for step, _ in checkpoints] == [5, 9]
    assert loaded == [0, 5, 9]


def test_a_slice_is_a_series_of_fewer_steps() -> None:
    series, loaded = in_memory(0, 1, 2, 5, 9)
    assert series[::2].steps == (0, 2, 9)
    assert series[-2:].steps == (5, 9)
    assert series[1:][1:].name == "run"
    assert not loaded


def test_a_slice_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="the series 'run' has no checkpoints"):
        in_memory(0, 1)[0][5:]


@pytest.mark.parametrize("steps", [(0, 2, 1), (0, 1, 1)])
def test_steps_ascend_each_once(steps: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="the steps of a series ascend, each once"):
        in_memory(*steps)


def test_steps_are_whole_numbers() -> None:
    state, five, text = {"step": torch.tensor(0)}, cast(Any, np.int64(5)), cast(Any, "5")
    with unchecked_types():
        with pytest.raises(ValueError, match=r"a step is a whole number of optimiser updates, got '5'"):
            open_series([(text, state)], architecture=MODEL)
        opened = open_series([(five, state), (7, state)], architecture=MODEL)
    assert opened.steps == (5, 7)
    assert opened.load(5)["step"].data_ptr() == state["step"].data_ptr()


def test_no_checkpoints_are_no_series(small_folder: Path) -> None:
    with pytest.raises(ValueError, match="no checkpoints of models in memory: it has none"):
        open_series([], architecture=MODEL)
    with pytest.raises(ValueError, match=r"no checkpoints of .*: `steps` names none"):
        open_series(small_folder, steps=[])


def test_an_unknown_step_names_the_nearest() -> None:
    series, loaded = in_memory(0, 5, 9)
    assert series.weights(5)["step"] == 5
    with pytest.raises(ValueError, match="the series 'run' has no step 8; the nearest is 9"):
        series.weights(8)
    assert loaded == [5]


def test_a_series_says_what_it_is() -> None:
    assert repr(in_memory(0, 5, 9)[0]) == "CheckpointSeries('run': 3 checkpoints, steps 0 to 9; 1 layer of 3 heads)"


def test_an_opened_folder_gives_what_was_trained(small_run: CheckpointSeries, small_folder: Path) -> None:
    series = open_series(small_folder)
    assert (series.name, series.steps) == ("small", (0, 2, 4, 6))
    assert series.architecture == small_run.architecture
    for (step, state), (other, same) in zip(series, small_run, strict=True):
        assert step == other
        assert all(torch.equal(state[name], same[name]) for name in state)


def test_a_folder_is_called_by_its_name_from_inside_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert open_series(".").name == open_series(os.pardir + "/copy").name == "copy"


def test_opening_reads_no_weights(folder: Path) -> None:
    for step in (0, 2, 4, 6):
        checkpoint_file(folder, step).write_bytes(b"")
    assert open_series(folder).steps == (0, 2, 4, 6)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match=r"is not a run folder: there is no run.json"):
            open_series(folder)


def test_a_run_without_checkpoints_is_refused(folder: Path) -> None:
    shutil.rmtree(folder / "checkpoints")
    with pytest.raises(FileNotFoundError, match="holds no checkpoints yet"):
        open_series(folder)


def test_a_checkpoint_missing_in_the_middle_is_named(folder: Path) -> None:
    checkpoint_file(folder, 2).unlink()
    with pytest.raises(FileNotFoundError, match=r"step-00000002.safetensors is missing: the plan"):
        open_series(folder)


def test_an_interrupted_run_opens_as_far_as_it_came(folder: Path) -> None:
    for step in (4, 6):
        checkpoint_file(folder, step).unlink()
    assert open_series(folder).steps == (0, 2)


def test_files_of_other_names_are_no_checkpoints(folder: Path) -> None:
    for name in (".step-00000003.safetensors.partial", "step-x.safetensors", "notes.txt"):
        (folder / "checkpoints" / name).write_text("not weights")
    assert open_series(folder).steps == (0, 2, 4, 6)


@pytest.mark.parametrize("kept", [0, 5, 100, -1])
def test_a_truncated_file_is_named_when_it_is_loaded(folder: Path, kept: int) -> None:
    path = checkpoint_file(folder, 4)
    path.write_bytes(path.read_bytes()[:kept])
    series = open_series(folder)
    assert series.weights(2)
    with pytest.raises(
        ValueError, match=r"step-00000004.safetensors is damaged: its \d+ bytes do not have the checksum"
    ):
        series.weights(4)


def test_a_file_deleted_after_opening_is_named(folder: Path) -> None:
    series = open_series(folder)
    checkpoint_file(folder, 2).unlink()
    with pytest.raises(FileNotFoundError, match=r"step-00000002.safetensors is gone"):
        list(series)


def test_deleted_checkpoints_come_back_with_the_same_bits(folder: Path, small_recipe: Recipe) -> None:
    before = {path.name: path.read_bytes() for path in (folder / "checkpoints").iterdir()}
    shutil.rmtree(folder / "checkpoints")
    train(small_recipe, folder, progress=False)
    assert {path.name: path.read_bytes() for path in (folder / "checkpoints").iterdir()} == before


def test_a_mistyped_folder_is_named_as_one_too(tmp_path: Path) -> None:
    hub = {"endpoint": "http://127.0.0.1:9", "cache": tmp_path}
    with pytest.raises(ConnectionError, match="there is no folder runs/none here, and as a repository: "):
        open_series("runs/none", hub=hub)


def test_models_by_their_steps_are_taken_in_the_order_of_the_steps() -> None:
    states = {step: {"step": torch.tensor(step)} for step in (30, 0, 4)}
    series = open_series(states, architecture=MODEL)
    assert series.steps == (0, 4, 30)
    assert [int(state["step"]) for _, state in series] == [0, 4, 30]
    with pytest.raises(ValueError, match="ascend"):
        open_series(list(states.items()), architecture=MODEL)


def test_a_single_index_says_how_checkpoints_are_chosen(small_run: CheckpointSeries) -> None:
    with unchecked_types(), pytest.raises(TypeError, match=r"a slice, as in series\[-5:\].*; got series\[-1\]"):
        small_run[-1]  # type: ignore[index]


def test_the_model_of_a_step_has_its_weights() -> None:
    built = models.build(MODEL, seed=3)
    series = CheckpointSeries("run", MODEL, (0, 10), lambda step: models.weights(built))
    tokens = torch.tensor([[0, 1, 2]])
    with torch.no_grad():
        torch.testing.assert_close(series.model(10)(tokens), built(tokens))
    with pytest.raises(ValueError, match="has no step 7; the nearest is 10"):
        series.model(7)
