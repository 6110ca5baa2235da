"""Figure 9: SGD from random weights beside the flow, and what is not reached."""

from pathlib import Path

import pytest

from stagewise.papers.emergence._grids import FigureRequest
from stagewise.papers.emergence._toy_descent import figure_9
from stagewise.papers.emergence.toy_attention import run_toy_curve
from stagewise.papers.theory.plateau_flow import plateau
from stagewise.papers.theory.sparse_attention import SparseAttention

pytestmark = pytest.mark.usefixtures("unchecked", "no_workers")


def test_a_curve_starts_before_the_first_update_and_falls() -> None:
    curve = run_toy_curve(16, 8, budget=120, every=40)
    assert curve["steps"] == [0, 40, 80, 120]
    assert curve["losses"][-1] < 0.2 * curve["losses"][0]


@pytest.mark.slow
def test_descent_takes_about_as_long_as_the_flow(tmp_path: Path) -> None:
    axes = {"T": (32,), "d": (32,), "seed": (0, 1, 2)}
    result = figure_9(FigureRequest(tmp_path, "small", axes, progress=False))
    (row,) = result.numbers.to_dict("records")
    assert float(row["ours"]) == pytest.approx(1, abs=0.3)
    assert row["remark"] == "3 of 3 seeds reached it"
    assert len(result.figure.axes[0].lines) == 4


def test_a_budget_too_short_is_said(tmp_path: Path) -> None:
    axes = {"T": (32,), "d": (32,), "seed": (0,)}
    budget = int(plateau(SparseAttention(32, 32)) / 4)
    (row,) = figure_9(FigureRequest(tmp_path, "small", axes, budget=budget, progress=False)).numbers.to_dict("records")
    assert (row["ours"], row["remark"]) == ("not known", "0 of 1 seeds reached it")
