"""Rows of the bench: chosen by name, kept beside one another, shown in a table."""

import json
from pathlib import Path

import pytest

from evidence.bench.rows import areas, chosen, record, table
from evidence.bench.timing import Row


def test_every_row_is_found_by_its_area_and_by_its_name() -> None:
    for area, functions in areas().items():
        assert chosen([area]) == [f"{area}.{function.__name__}" for function in functions]
        assert chosen([functions[0].__name__])[:1] == chosen([area])[:1]
    with pytest.raises(ValueError, match="no row or area 'nothing'; it has"):
        chosen(["nothing"])


def test_a_row_measured_again_replaces_itself_alone(tmp_path: Path) -> None:
    record([Row("one", 1.0, 1.0, 1.0), Row("two", 2.0, 2.0, 2.0)], tmp_path)
    record([Row("one", 3.0, 2.5, 3.5, 4, "higher")], tmp_path)
    kept = json.loads((tmp_path / "bench.json").read_text())
    assert [(row["name"], row["value"], row["goal"]) for row in kept] == [("one", 3.0, 4), ("two", 2.0, None)]
    assert {"name", "value", "low", "high", "goal", "better"} <= kept[0].keys()
    lines = (tmp_path / "bench.md").read_text().splitlines()
    assert lines[2] == "| one | 3.00 | 2.50 to 3.50 | >= 4 | no | |"
    assert len(lines) == 4


def test_a_table_shows_large_numbers_without_decimals() -> None:
    assert "| 1234 | 1000 to 2000 |" in table([Row("large", 1234.4, 1000, 2000)])
