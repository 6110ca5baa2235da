"""The collapse plot draws every run once, where the law and the measurement put it."""

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.lines import Line2D

from stagewise.papers.forecast import Forecast
from stagewise.papers.law_plots import collapse, early_warning
from stagewise.papers.power_law import fit_log_linear

RUNS = pd.DataFrame({"T": [64.0, 128.0, 256.0, 64.0, 128.0, 256.0], "d": [4, 4, 4, 16, 16, 16]})
RUNS["time"] = 1.5 * RUNS["T"] * RUNS["d"] ** 0.5


def markers(ax: Axes) -> list[Line2D]:
    return [box.lines[0] for box in ax.containers if isinstance(box, ErrorbarContainer)]


def test_points_lie_on_the_diagonal_of_an_exact_law() -> None:
    ax = collapse(RUNS, fit_log_linear(RUNS, "T, d"))
    points = np.concatenate([np.asarray(line.get_xydata()) for line in markers(ax)])
    assert points[:, 0] == pytest.approx(points[:, 1])
    assert sorted(points[:, 1]) == pytest.approx(sorted(RUNS["time"]))


def test_censored_runs_are_drawn_at_their_last_step_and_open() -> None:
    runs = RUNS.assign(lo=RUNS["time"] * 0.9, hi=RUNS["time"] * 1.1)
    runs.loc[5, ["lo", "hi"]] = [1000.0, math.inf]
    ax = collapse(runs, fit_log_linear(RUNS, "T, d"), colour_by="T")
    open_ones = [line for line in markers(ax) if line.get_markerfacecolor() == "none"]
    assert [np.asarray(line.get_ydata())[0] for line in open_ones] == [1000.0]


def test_runs_without_a_time_or_a_column_are_refused() -> None:
    law = fit_log_linear(RUNS, "T, d")
    with pytest.raises(ValueError, match="need a column time, or lo and hi; they have T, d"):
        collapse(RUNS[["T", "d"]], law)
    with pytest.raises(ValueError, match="no column 'seed'"):
        collapse(RUNS, law, colour_by="seed")


READINGS = pd.DataFrame({"step": np.arange(0, 110, 10), "value": np.linspace(0, 1, 11)})


def test_the_cut_parts_what_was_seen_from_what_came() -> None:
    lines = {
        str(line.get_label()): line for line in early_warning(READINGS, Forecast(40, 70, 60, 90), (0.4, 0.6)).lines
    }
    assert np.array_equal(lines["_seen"].get_xdata(), READINGS["step"][:5])
    assert np.array_equal(lines["_came"].get_xdata(), READINGS["step"][5:])
    assert np.array_equal(lines["_forecast"].get_xdata(), [70, 70])


def test_an_end_that_is_not_foretold_has_no_line_and_the_axis_an_end() -> None:
    ax = early_warning(READINGS, Forecast(40, np.inf, 50, np.inf), (0.4, 0.6))
    assert "_forecast" not in {str(line.get_label()) for line in ax.lines}
    assert ax.get_xlim() == (0, 100)
