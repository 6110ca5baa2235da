"""Several runs in one log, and steps that are all the same, are told with the way out."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise import read_log


def _lines(number: int, first: int = 0) -> list[str]:
    return [f"step {10 * i} loss {3 - 0.04 * i:.3f}" for i in range(first, number)]


def test_two_runs_in_a_text_are_told_with_their_lines_of_which_each_is_read(tmp_path: Path) -> None:
    lines = ["run A", *_lines(50), "", "run B, again", *_lines(40)]
    both = tmp_path / "both.log"
    both.write_text("\n".join(lines), encoding="utf8")
    message = r"as of 2 runs: lines 2 to 51 and 54 to 93. Take one, as by `sed -n 54,93p FILE`"
    with pytest.warns(UserWarning, match="the step is"), pytest.raises(ValueError, match=message):
        read_log(both)
    one = tmp_path / "one.log"
    one.write_text("\n".join(lines[53:93]), encoding="utf8")
    with pytest.warns(UserWarning, match="the step is"):
        assert read_log(one)["step"].tolist() == list(range(0, 400, 10))


def test_runs_below_one_another_in_a_table_are_told_with_their_rows() -> None:
    frame = pd.DataFrame({"step": [*range(30)] * 3, "loss": np.linspace(3, 1, 90)})
    with pytest.raises(ValueError, match=r"3 runs: rows 0 to 29 and 30 to 59 and 60 to 89. .*`frame\[60:90\]`"):
        read_log(frame)
    assert read_log(frame[60:90])["step"].tolist() == [*range(30)]


def test_a_run_that_goes_on_from_an_earlier_step_is_one(tmp_path: Path) -> None:
    text = tmp_path / "resumed.log"
    text.write_text("\n".join([*_lines(50), "restored", *_lines(80, first=40)]), encoding="utf8")
    with (
        pytest.warns(UserWarning, match="the step is"),
        pytest.warns(UserWarning, match="logged again from step 400 on"),
    ):
        table = read_log(text)
    assert table["step"].tolist() == list(range(0, 800, 10))


def test_steps_that_are_all_the_same_can_be_the_rows_or_another_column() -> None:
    frame = pd.DataFrame({"step": 0, "time": np.arange(1000, 1400, 10), "loss": np.linspace(3, 1, 40)})
    with pytest.raises(ValueError, match=r"all 40 values of loss are at step 0: .*--step-column.*'rows' counts"):
        read_log(frame)
    assert read_log(frame, steps="rows")["step"].tolist() == [*range(40)]
    assert read_log(frame, steps="time")["step"].tolist() == frame["time"].tolist()


def test_a_column_called_rows_is_the_steps_where_it_is_named() -> None:
    frame = pd.DataFrame({"rows": np.arange(0, 80, 2), "loss": np.linspace(3, 1, 40)})
    assert read_log(frame, steps="rows")["step"].tolist() == frame["rows"].tolist()
