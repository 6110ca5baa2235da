"""Run folders: files are whole or not there, and a folder belongs to one recipe."""

import dataclasses
import errno
import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from stagewise.checkpoints.run_folder import (
    ANALYSIS,
    RESUME,
    RUN,
    checkpoint_file,
    claim,
    is_finished,
    read_plan,
    read_record,
    read_resume,
    read_run,
    versions,
    write,
    write_json,
)
from stagewise.checkpoints.series import open_series
from stagewise.recipe import Recipe, describe


def test_a_file_is_written_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = write(tmp_path / "new" / "file", lambda partial: partial.write_text("all of it"))
    assert path.read_text() == "all of it"
    assert [file.name for file in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_write_that_breaks_leaves_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    def save(partial: Path) -> None:
        partial.write_text("half")
        raise error("while writing")

    write(tmp_path / "file", lambda partial: partial.write_text("old"))
    with pytest.raises(error, match="while writing"):
        write(tmp_path / "file", save)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("file", "old")]


def test_a_file_has_its_bytes_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, bool]] = []

    def fsync(descriptor: int) -> None:
        seen.append((os.fstat(descriptor).st_size, (tmp_path / "file").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write(tmp_path / "file", lambda partial: partial.write_text("four"))
    assert seen == [(4, False)]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "whatever"),
        RuntimeError(f"writer failed: {os.strerror(errno.ENOSPC)} (os error 28)"),
    ],
    ids=["system", "another library"],
)
def test_a_full_disk_is_called_so(tmp_path: Path, error: Exception) -> None:
    def save(partial: Path) -> None:
        partial.write_text("half")
        raise error

    with pytest.raises(OSError, match=r"the disk is full. What was there before is untouched") as caught:
        write(tmp_path / "file", save)
    assert caught.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())


def test_json_comes_back(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None], "ü": "é"}
    assert json.loads(write_json(tmp_path / "x.json", value).read_text(encoding="utf8")) == value


def test_a_claimed_folder_records_recipe_and_versions(tmp_path: Path, small_recipe: Recipe) -> None:
    claim(tmp_path / "run", small_recipe)
    run = read_run(tmp_path / "run")
    assert run["recipe"] == json.loads(json.dumps(describe(small_recipe)))
    assert run["versions"] == versions()
    assert {"python", "torch", "transformer-lens", "stagewise"} <= run["versions"].keys()


def test_a_folder_is_claimed_again_by_its_own_recipe_alone(tmp_path: Path, small_recipe: Recipe) -> None:
    claim(tmp_path, small_recipe)
    before = (tmp_path / RUN).read_bytes()
    claim(tmp_path, small_recipe)
    other = dataclasses.replace(small_recipe, plan=dataclasses.replace(small_recipe.plan, learning_rate=0.5))
    with pytest.raises(ValueError, match=r"another recipe:\n  plan.learning_rate: 0.5 requested, 0.05 on disk\n"):
        claim(tmp_path, other)
    assert (tmp_path / RUN).read_bytes() == before


def test_a_folder_without_a_run_is_not_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"is not a run folder: there is no run.json in it"):
        read_run(tmp_path)


DAMAGED = {
    "{": "is not valid JSON",
    "\xff": "is not valid JSON",
    "[]": "holds a list, expected a JSON object",
    "3": "holds a number, expected a JSON object",
    "null": "holds nothing, expected a JSON object",
    "{}": "records no recipe",
    '{"recipe": 3}': "records no recipe",
}


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_run_json_is_named_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / RUN).write_bytes(text.encode("latin1"))
    for read in (read_run, read_record, read_plan, open_series):
        with pytest.raises(ValueError, match=f"run.json {DAMAGED[text]}") as caught:
            read(tmp_path)
        assert "\n" not in str(caught.value)


def test_a_record_without_a_plan_is_named(tmp_path: Path) -> None:
    write_json(tmp_path / RUN, {"recipe": {"plan": []}})
    with pytest.raises(ValueError, match=r"run.json records no plan: restore it"):
        is_finished(tmp_path)


def test_an_analysis_that_is_damaged_says_what_to_run(tmp_path: Path) -> None:
    (tmp_path / ANALYSIS).write_text("{}")
    with pytest.raises(ValueError, match=r"analysis.json records no recipe.*run `stagewise report`"):
        read_record(tmp_path)


def test_a_run_is_finished_when_its_last_checkpoint_is_there(small_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(small_folder, tmp_path / "copy"))
    assert is_finished(folder)
    checkpoint_file(folder, read_plan(folder)["steps"]).unlink()
    assert not is_finished(folder)


@pytest.mark.parametrize("kept", [0, 3, 100, 0.5, -1], ids=str)
def test_a_truncated_state_of_training_is_named(small_folder: Path, tmp_path: Path, kept: int | float) -> None:
    content = (small_folder / RESUME).read_bytes()
    path = tmp_path / RESUME
    path.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    with pytest.raises(ValueError, match=r"resume.pt is truncated or damaged \(\d+ bytes.*Delete it and train again"):
        read_resume(path)


def test_a_state_of_training_that_is_something_else_is_named(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / RESUME)
    with pytest.raises(ValueError, match=r"resume.pt holds no state of a training"):
        read_resume(tmp_path / RESUME)
