"""The cases of the calibration: found by their names, each alone the same as among all."""

from pathlib import Path

import pytest

from evidence.calibration import __main__ as calibration
from evidence.calibration.rows import Row


def test_a_cases_rows_are_the_same_when_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "FOLDER", tmp_path)
    rows = calibration.run("seeds mean of 3", 2)
    assert all(isinstance(row, Row) and row.repetitions == 20 for row in rows)
    monkeypatch.setattr(calibration, "jobs", dict)
    assert calibration.run("seeds mean of 3", 2) == rows


def test_every_area_has_cases_with_names_of_their_own() -> None:
    areas = {name.split()[0] for name in calibration.jobs()}
    assert {"null", "planted", "held", "lineage", "seeds", "emergence", "laws", "periods"} <= areas
