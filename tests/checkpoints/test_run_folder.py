"""Run folders: files are whole or not there, and a folder belongs to one recipe."""

import dataclasses
import errno
import json
import os
from pathlib import Path

import pytest

from stagewise.checkpoints.run_folder import RUN, claim, read_run, versions, write, write_json
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
    with pytest.raises(ValueError, match=r"another recipe:\n  plan.learning_rate: 0.5 asked for, 0.05 on disk\n"):
        claim(tmp_path, other)
    assert (tmp_path / RUN).read_bytes() == before


def test_a_folder_without_a_run_is_not_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"is not a run folder: there is no run.json in it"):
        read_run(tmp_path)


@pytest.mark.parametrize(("text", "message"), [("{", "is not valid JSON"), ("[]", "no recipe"), ("{}", "no recipe")])
def test_a_damaged_run_json_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / RUN).write_text(text)
    with pytest.raises(ValueError, match=f"run.json .*{message}"):
        read_run(tmp_path)
