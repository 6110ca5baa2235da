"""Figures 13 to 15: which runs they need, and how two variants are compared."""

from pathlib import Path

import pandas as pd
import pytest

from stagewise.papers.emergence import _regression as regression
from stagewise.papers.emergence import _variants as variants
from stagewise.papers.emergence._grids import FigureRequest, axes_of
from stagewise.papers.emergence.recipes import regression_recipe

pytestmark = pytest.mark.usefixtures("unchecked", "no_workers")


@pytest.mark.parametrize(
    ("figure", "grid", "runs"),
    [
        pytest.param(11, {"T": [4], "d": [2, 3], "B": [1, 2], "seed": [0]}, 3, marks=pytest.mark.slow),
        (12, {"T": [4], "d": [2], "p": [0, 0.5], "seed": [0]}, 2),
        pytest.param(
            13, {"T": [4], "d": [2], "N_layers": [1], "N_heads": [1, 2], "seed": [0]}, 2, marks=pytest.mark.slow
        ),
        pytest.param(15, {"T": [4], "d": [2], "seed": [0]}, 2, marks=pytest.mark.slow),
    ],
)
def test_a_figure_trains_each_run_once_and_says_what_is_censored(
    figure: int, grid: dict[str, list[int | float]], runs: int, tmp_path: Path
) -> None:
    draw = getattr(regression if figure < 13 else variants, f"figure_{figure}")
    request = FigureRequest(tmp_path, "small", axes_of(figure, "small", grid), budget=1, progress=False)
    result = draw(request)
    assert len(list((tmp_path / "runs").iterdir())) == runs
    assert result.numbers["ours"].str.contains("no law|> 1|censored").any()
    assert any(ax.lines or ax.texts for ax in result.figure.axes)


def test_variants_of_the_task_and_optimiser_are_those_that_they_say() -> None:
    for parameters, _ in variants.TASKS.values():
        task = regression_recipe(8, 4, **parameters).task
        assert {name: getattr(task, name) for name in parameters} == parameters
    plans = {name: regression_recipe(8, 4, **chosen).plan for name, (chosen, _) in variants.OPTIMISERS.items()}
    assert (plans["SGD"].optimiser, plans["SGD"].learning_rate, plans["SGD"].momentum) == ("sgd", 5e-3, 0)
    assert (plans["Adam"].optimiser, plans["Adam"].learning_rate) == ("adamw", 1e-4)


def test_two_variants_are_compared_size_by_size() -> None:
    slow = pd.DataFrame({"T": [8, 16], "d": 4, "lo": [90, 190], "hi": [110, 210]})
    laws = {"SGD": "6.0 d^1.5 T^1.0", "Adam": "1.5 d^1.0 T^.5"}
    rows = variants._compared({"SGD": slow, "Adam": slow.assign(lo=slow["lo"] / 10, hi=slow["hi"] / 10)}, laws)
    assert [row["quantity"] for row in rows] == [f"steps of SGD over Adam, T = {T}, d = 4" for T in (8, 16)]
    assert [float(row["ours"]) for row in rows] == pytest.approx([10, 10], abs=0.01)
    assert [row["published"] for row in rows] == [f"{8 * T**0.5:.2f} (the laws)" for T in (8, 16)]
