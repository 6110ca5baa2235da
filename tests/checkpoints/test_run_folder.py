"""Run folders: files are whole or not there, and a folder belongs to one recipe."""

import dataclasses
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from stagewise.architectures import minimal
from stagewise.checkpoints import _writing as writing
from stagewise.checkpoints._checksums import LIST
from stagewise.checkpoints._table_file import read_parquet
from stagewise.checkpoints.run_folder import (
    ANALYSIS,
    FORMAT,
    METRICS,
    RESUME,
    RUN,
    SOURCE,
    checkpoint_file,
    claim,
    claim_for,
    is_finished,
    measuring,
    read_plan,
    read_record,
    read_resume,
    read_run,
    versions,
    write,
    write_json,
)
from stagewise.checkpoints.series import find, folder_of, open_series
from stagewise.recipe import Recipe, describe


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


def test_checkpoints_without_a_record_belong_to_nobody(
    small_folder: Path, small_recipe: Recipe, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(small_folder, tmp_path / "copy"))
    (folder / RUN).unlink()
    with pytest.raises(ValueError, match=r"holds checkpoints, and no run.json that says of which recipe: restore it"):
        claim(folder, small_recipe)


@pytest.mark.parametrize("state", [{}, {"step": "3", "optimiser": {}}, {"step": 3}], ids=str)
def test_a_state_of_training_without_its_keys_is_named(state: dict[str, Any], tmp_path: Path) -> None:
    torch.save(state, tmp_path / RESUME)
    with pytest.raises(ValueError, match=r"resume.pt holds no state of a training"):
        read_resume(tmp_path / RESUME)


@pytest.mark.parametrize("kept", [0, 3, 0.5, -1], ids=str)
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "from before checksums"])
def test_a_truncated_table_is_named(kept: int | float, listed: bool, small_folder: Path, tmp_path: Path) -> None:
    content = (small_folder / METRICS).read_bytes()
    (tmp_path / METRICS).write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    if listed:
        shutil.copy(small_folder / LIST, tmp_path)
    with pytest.raises(ValueError, match=r"metrics.parquet is (truncated or )?damaged.* measure again"):
        read_parquet(tmp_path / METRICS, "measure again")
    with pytest.raises(FileNotFoundError, match=r"other.parquet is not there: measure again"):
        read_parquet(tmp_path / "other.parquet", "measure again")


def test_what_a_process_left_that_was_killed_after_its_claim_is_gone_at_the_next_one(
    tmp_path: Path,
) -> None:
    claim_for(tmp_path, "/a/ckpts")
    before = sorted(path.name for path in (tmp_path / "parts").iterdir())
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = writing._partial(tmp_path / SOURCE).name.replace(f"-{os.getpid()}-", f"-{ended.pid}-")
    (tmp_path / "parts" / left).mkdir()
    claim_for(tmp_path, "/a/ckpts")
    assert sorted(path.name for path in (tmp_path / "parts").iterdir()) == before


def test_measurements_of_another_source_are_never_overwritten(tmp_path: Path, small_folder: Path) -> None:
    claim_for(tmp_path, "/a/ckpts")
    claim_for(tmp_path, "/a/ckpts")
    with pytest.raises(ValueError, match=r"holds measurements of /a/ckpts, not of /b/ckpts: choose another folder"):
        claim_for(tmp_path, "/b/ckpts")
    with pytest.raises(ValueError, match=r"holds measurements of the run in it, not of /b/ckpts"):
        claim_for(small_folder, "/b/ckpts")
    write_json(tmp_path / "other" / ANALYSIS, {"recipe": {}, "series": {"source": "/a/ckpts"}})
    with pytest.raises(ValueError, match=r"holds measurements of /a/ckpts"):
        claim_for(tmp_path / "other", "/b/ckpts")


def test_a_damaged_part_of_a_measurement_is_made_again(tmp_path: Path) -> None:
    good, bad = (write(tmp_path / name, lambda partial: partial.write_text("rows")) for name in ("good", "bad"))
    bad.write_text("rowz")
    with pytest.warns(UserWarning, match=r"bad is damaged: it is made again"), measuring(tmp_path):
        assert (good.exists(), bad.exists()) == (True, False)


def test_two_sources_of_one_name_have_two_folders(tmp_path: Path) -> None:
    folders = set()
    for parent in "ab":
        (tmp_path / parent / "ckpts").mkdir(parents=True)
        save_file({"w": torch.zeros(2)}, tmp_path / parent / "ckpts" / "step-3.safetensors")
        series = open_series(tmp_path / parent / "ckpts", architecture=minimal(3, 4))
        folders.add(folder_of(series))
        (tmp_path / f"link-{parent}").symlink_to(tmp_path / parent / "ckpts")
        assert find(tmp_path / f"link-{parent}").identity == find(tmp_path / parent / "ckpts").identity
    assert len(folders) == 2
    assert all(folder.name.startswith("analysis-ckpts-") for folder in folders)
    for name in ("a/mine.csv", "b/mine.csv"):
        (tmp_path / name).touch()
    places = {folder_of(series, pairs) for pairs in (None, "ioi", tmp_path / "a/mine.csv", tmp_path / "b/mine.csv")}
    assert len(places) == 4
    assert Path(f"{folder_of(series)}-on-ioi") in places


def test_a_record_of_the_first_version_is_opened_and_claimed(tmp_path: Path, small_recipe: Recipe) -> None:
    claim(tmp_path / "new", small_recipe)
    record = read_run(tmp_path / "new")
    assert record["format"] == FORMAT
    (tmp_path / RUN).write_text(json.dumps({key: value for key, value in record.items() if key != "format"}))
    assert read_run(tmp_path) == record
    claim(tmp_path, small_recipe)


def test_a_record_of_a_later_version_says_which_one_to_use(tmp_path: Path) -> None:
    later = {"format": FORMAT + 1, "versions": {"stagewise": "7.1"}}
    (tmp_path / RUN).write_text(json.dumps(later))
    with pytest.raises(ValueError, match=rf"run.json has format {FORMAT + 1}, .* up to {FORMAT}: use stagewise 7.1"):
        read_run(tmp_path)
    (tmp_path / RUN).write_text(json.dumps({"format": FORMAT + 1}))
    with pytest.raises(ValueError, match=r"use stagewise of its time, which wrote it"):
        read_run(tmp_path)


@pytest.mark.parametrize("form", ["1", 1.5, -1, None, True, []])
def test_a_form_that_is_no_number_is_refused(form: Any, tmp_path: Path) -> None:
    (tmp_path / RUN).write_text(json.dumps({"format": form}))
    with pytest.raises(ValueError, match=r"run.json has the format .* expected a whole number from 0 to"):
        read_run(tmp_path)
