"""Published numbers beside ours: what is written is what is printed."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import stats

from stagewise.papers.published import (
    COLUMNS,
    Result,
    bounds,
    in_words,
    mean_over,
    number,
    save,
    say_cost,
    show,
    table_of,
)

ROWS = [
    number("end of stage 1, steps", "330", 165.0, bounds(135, 180), "d = 24"),
    number("a quantity whose name is longer than one cell of the table", "-", "no law"),
]


def test_every_cell_is_printed_under_its_heading_and_long_ones_are_wrapped() -> None:
    printed = in_words(table_of(ROWS)).splitlines()
    start = {name: printed[0].index(name) for name in COLUMNS}
    cells = {"quantity": "end of stage 1", "published": "330", "ours": "165", "interval": "[135, 180]"}
    for name, cell in cells.items():
        assert printed[1][start[name] :].startswith(cell)
    assert " ".join(line[: start["published"]].strip() for line in printed[2:]) == ROWS[1]["quantity"]


def test_a_column_without_entries_is_left_out() -> None:
    printed = in_words(table_of([number("a", "1", 2)]))
    assert printed.split() == ["quantity", "published", "ours", "a", "1", "2"]


@pytest.mark.parametrize(("lo", "hi", "text"), [(1.0, 2.0, "[1, 2]"), (float("nan"), 2.0, ""), (3, 3, "")])
def test_an_interval_without_an_end_or_a_width_is_none(lo: int | float, hi: int | float, text: str) -> None:
    assert bounds(lo, hi) == text


def test_the_numbers_that_are_written_are_read_back(tmp_path: Path) -> None:
    save(Result(Figure(), table_of(ROWS)), tmp_path / "figure-1")
    read = pd.read_csv(tmp_path / "figure-1.csv", dtype=str, keep_default_na=False)
    assert read.to_dict("records") == ROWS
    assert {path.suffix for path in tmp_path.iterdir()} >= {".png", ".svg", ".csv"}


def test_one_drawing_is_one_file(tmp_path: Path) -> None:
    figure = Figure()
    figure.subplots().plot([0.0, 1.0])
    for name in ("one", "other"):
        save(Result(figure, table_of(ROWS)), tmp_path / name / "figure-1")
    for ending in ("svg", "png"):
        one, other = ((tmp_path / name / f"figure-1.{ending}").read_bytes() for name in ("one", "other"))
        assert one == other


def test_single_cells_are_written_behind_the_numbers_and_not_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = [number(f"entropy at rate {rate}, nats", "-", "1.5") for rate in range(64)]
    show(Result(Figure(), table_of(ROWS), cells=table_of(cells)), tmp_path / "figure-1")
    read = pd.read_csv(tmp_path / "figure-1.csv", dtype=str, keep_default_na=False)
    assert read.to_dict("records") == [*ROWS, *cells]
    printed = capsys.readouterr().out
    assert ROWS[0]["quantity"] in printed
    assert "entropy at rate" not in printed
    assert "figure-1.csv, and in it 64 rows of single cells" in printed


def test_what_a_figure_takes_is_said_beside_the_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    say_cost("4L", "ten minutes")
    say_cost("5", None)
    said = capsys.readouterr()
    assert (said.out, said.err.splitlines()) == (
        "",
        ["figure 4L takes ten minutes of one core; what is finished already is not done again"],
    )


def test_the_mean_over_seeds_has_students_interval() -> None:
    values = [100.0, 110.0, 150.0]
    expected = stats.t.interval(0.95, 2, loc=np.mean(values), scale=stats.sem(values))
    assert mean_over(values) == pytest.approx((120, *expected))
    assert np.isnan(mean_over([1.0])[1:]).all()
    assert np.isnan(mean_over([])).all()
