"""Records of earlier versions open; of later ones the error says which version to use."""

import json
from pathlib import Path
from typing import Any

import pytest

from stagewise.checkpoints._migration import FORMAT, STEPS, migrated
from stagewise.checkpoints.run_folder import RUN, claim, read_run
from stagewise.recipe import Recipe


def test_there_is_a_step_from_every_form_to_this_one() -> None:
    assert len(STEPS) == FORMAT
    assert [step({"recipe": {}})["format"] for step in STEPS] == list(range(1, FORMAT + 1))


def test_a_record_of_the_first_version_is_opened_and_claimed(tmp_path: Path, small_recipe: Recipe) -> None:
    claim(tmp_path / "new", small_recipe)
    record = read_run(tmp_path / "new")
    assert record["format"] == FORMAT
    (tmp_path / RUN).write_text(json.dumps({key: value for key, value in record.items() if key != "format"}))
    assert read_run(tmp_path) == record
    claim(tmp_path, small_recipe)


def test_a_record_of_a_later_version_says_which_one_to_use() -> None:
    later = {"format": FORMAT + 1, "versions": {"stagewise": "7.1"}}
    with pytest.raises(ValueError, match=rf"run.json has format {FORMAT + 1}, .* up to {FORMAT}: use stagewise 7.1"):
        migrated(later, "run.json")
    with pytest.raises(ValueError, match=r"use stagewise of its time, which wrote it"):
        migrated({"format": FORMAT + 1}, "run.json")


@pytest.mark.parametrize("form", ["1", 1.5, -1, None, True, []])
def test_a_form_that_is_no_number_is_refused(form: Any) -> None:
    with pytest.raises(ValueError, match=r"run.json has the format .* expected a whole number from 0 to"):
        migrated({"format": form}, "run.json")
