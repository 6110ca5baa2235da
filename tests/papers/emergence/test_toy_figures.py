"""The laws of the toy model's flows, and SGD beside them."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from stagewise.papers.emergence._grids import FigureRequest, axes_of
from stagewise.papers.emergence._panels import panels
from stagewise.papers.emergence._toy_figures import (
    cross_sample_times,
    figure_2,
    moments,
    plateaus,
    sgd_over_flow,
)
from stagewise.papers.power_law import fit_log_linear
from stagewise.papers.theory.sparse_attention import SparseAttention
from stagewise.papers.theory.trajectories import follow


def test_the_law_of_figure_2_right_has_the_published_exponent_and_another_constant() -> None:
    law = fit_log_linear(cross_sample_times(), "d ** 0.5 * T / f")
    assert law.exponents[0] == pytest.approx(1.01, abs=0.02)
    assert law.constant == pytest.approx(1.14, abs=0.1)  # 2.15 in the paper


@pytest.mark.parametrize(
    ("ends", "ours", "remark"),
    [
        ([5319.27, 2 * 2694.82], f"{math.sqrt(2):.2f}", "2 of 2 runs, geometric mean"),
        ([5319.27, math.inf], "1.00", "1 of 2 runs, geometric mean; the others are censored"),
        ([math.inf] * 2, "not known", "0 of 2 runs, geometric mean; the others are censored"),
    ],
)
def test_steps_are_compared_with_the_flow_of_the_same_size(ends: list[float], ours: str, remark: str) -> None:
    runs = pd.DataFrame({"T": [512, 256], "d": [64, 64], "B": 1, "p": 0.0, "hi": ends})
    row = sgd_over_flow(pd.concat([runs, runs.assign(B=2), runs.assign(p=0.5)]))
    assert (row["ours"], row["remark"]) == (ours, remark)


def test_a_share_at_which_the_flow_never_gets_there_is_refused_before_training(tmp_path: Path) -> None:
    axes = axes_of(2, "small", {"T": [16], "d": [4], "B": [1], "p": [0, 1], "seed": [0]})
    request = FigureRequest(tmp_path, "small", axes)
    with pytest.raises(ValueError, match=r"p=1\.0\) is still above a loss of 0\.1 .*raise the budget or the threshold"):
        figure_2(request)
    assert list(tmp_path.iterdir()) == []


def test_weights_come_before_attention() -> None:
    rows = moments(follow(SparseAttention(512, 64), np.linspace(0, 8000, 801)))
    times = [float(row["ours"]) for row in rows[:4]]
    assert times == sorted(times)
    assert float(rows[4]["ours"]) == pytest.approx(8.316, abs=0.01)


def test_a_panel_has_a_colour_a_value_and_its_law_beside_it() -> None:
    times = pd.DataFrame({"d": [1, 4, 1, 4], "B": [1, 1, 2, 2], "time": [2.0, 4.0, 1.0, 2.0]})
    _, (ax,) = panels(1)
    plateaus(ax, times, "B", fit_log_linear(times, "d, B"), "")
    for line, law in zip(ax.lines[::2], ax.lines[1::2], strict=True):
        np.testing.assert_allclose(np.asarray(line.get_ydata(), float), np.asarray(law.get_ydata(), float))
