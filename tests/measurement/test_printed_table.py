"""How a table prints: a column of axes, the ends of many rows; a DataFrame in all else."""

import pandas as pd

from stagewise.measurement._printed_table import Table
from stagewise.table import tidy


def test_a_table_prints_its_axes_in_one_column_and_the_ends_of_many_rows() -> None:
    rows = pd.DataFrame({"step": range(100), "value": 1 / 3, "layer": [0, pd.NA] * 50, "head": [1, pd.NA] * 50})
    frame = Table(tidy([rows.assign(run="run", probe="Loss", quantity="excess", resamples=None)]))
    lines = repr(frame).splitlines()
    assert lines[0].split() == ["run", "step", "probe", "quantity", "axes", "value"]
    assert lines[1].split() == ["run", "0", "Loss", "excess", "layer", "0,", "head", "1", "0.3333"]
    assert len(lines) == 1 + 16 + 1
    assert lines[-1] == "100 rows, the first and the last 8 shown"
    assert "<table" in frame._repr_html_()


def test_a_table_is_a_data_frame_in_all_else() -> None:
    frame = Table({"step": [0, 1], "value": [1.0, 2.0]})
    assert isinstance(frame[frame["step"] > 0], Table)
    assert repr(frame[["step"]]) == " step\n    0\n    1\n2 rows"
    assert repr(frame.iloc[:0]).endswith("0 rows")
    assert frame.groupby("step")["value"].mean().tolist() == [1.0, 2.0]


def test_resamples_do_not_spill_into_a_csv() -> None:
    frame = Table({"step": [0], "value": [1.0], "resamples": [[0.5] * 200]})
    assert frame.to_csv(index=False) == "step,value\n0,1.0\n"
    assert "0.5" in str(frame.to_csv(columns=["resamples"]))
