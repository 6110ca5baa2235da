"""The table of records: a folder of records is asked, judged, and written as a page with its sources."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evidence.records.__main__ import judged_row
from evidence.records.page import Row, page
from evidence.records.truth import Source, sources_of, truths_of

README = """# Records

| record | file | source and path | commit | licence | cut |
| --- | --- | --- | --- | --- | --- |
| jump | jump.csv (CSV) | somebody/runs `results/jump.csv` | 0123abc4567d | MIT | nothing |
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one record: an accuracy that jumps at step 500, with its truth."""
    steps = np.arange(0, 1000, 25)
    noise = 0.02 * np.random.default_rng(0).standard_normal(len(steps))
    accuracy = np.where(steps > 500, 0.9, 0.1) + noise
    pd.DataFrame({"step": steps, "accuracy": accuracy}).to_csv(tmp_path / "jump.csv", index=False)
    event = {"interval": [500, 525], "curves": "acc", "direction": "rises", "named": 1, "required": True}
    truth = {"file": "jump.csv", "events": [1, 1], "transitions": [event], "never": [], "null": False}
    truth |= {"refusal_is_right": False, "bounded": "acc"}
    (tmp_path / "truths.json").write_text(json.dumps({"jump": truth}), encoding="utf8")
    (tmp_path / "README.md").write_text(README, encoding="utf8")
    return tmp_path


def test_the_sources_are_read_from_the_table_of_the_folder(folder: Path) -> None:
    assert sources_of(folder) == {"jump": Source("somebody/runs results/jump.csv", "0123abc4567d")}
    assert truths_of(folder)["jump"].sentence == "rises within 500-525: acc"


def test_a_record_is_asked_by_the_command_line_and_judged_beside_other_searches(folder: Path) -> None:
    row = judged_row("jump", folder)
    assert (row.verdict, row.reasons) == ("right", [])
    assert row.said.startswith("One transition was found. Between steps 500 and 525")
    assert set(row.others.values()) <= {"right", "incomplete", "wrong"}
    assert not any(path.name == "runs" for path in folder.iterdir())


def test_a_record_that_cannot_be_read_is_refused_with_the_reason(folder: Path) -> None:
    (folder / "jump.csv").write_text("no,columns\n", encoding="utf8")
    row = judged_row("jump", folder)
    assert row.verdict == "refused"
    assert "there are no rows of numbers" in row.said


def test_the_page_counts_verdicts_of_every_search_and_names_those_that_are_not_installed() -> None:
    rows = [
        Row("one", "a/b c.csv 0123", "A | B", "One.", "right", [], {"PELT": "wrong"}),
        Row("two", "a/b d.csv 0123", "none", "Two.", "wrong", ["too many"], {"PELT": "right"}),
    ]
    written = page(rows, ["BEAST"])
    assert "**1 of 2 are right; 0 incomplete, 1 wrong, 0 refused.**" in written
    assert r"| one | a/b c.csv 0123 | A \| B | One. | right |" in written
    assert "| PELT | 2 | 1 | 0 | 1 | 0 | 50 |" in written
    assert "Not installed: BEAST." in written
