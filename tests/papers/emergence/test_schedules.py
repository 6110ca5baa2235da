"""Repetition that ends: the toy model along a schedule, and its steps beside those of the best fixed value."""

from pathlib import Path

import pytest

from stagewise.papers.emergence._grids import FigureRequest, axes_of
from stagewise.papers.emergence._schedules import COPIES, SHARES, figure_schedules
from stagewise.papers.emergence.toy_attention import run_toy
from stagewise.value_schedules import Ramp, Steps

pytestmark = pytest.mark.usefixtures("unchecked")


def test_a_schedule_that_stays_is_the_fixed_value() -> None:
    fixed = run_toy(8, 4, p=0.3, budget=200)
    assert run_toy(8, 4, p=Steps((0.3,), ()), budget=200) == fixed
    assert run_toy(8, 4, p=Ramp(0.9, 0.3, start=0, stop=1), budget=200)["hi"] == pytest.approx(fixed["hi"], abs=10)


def test_copies_that_stay_never_suffice_for_one_copy_and_those_that_end_do() -> None:
    assert run_toy(8, 4, B=2, budget=400)["hi"] < 400
    assert run_toy(8, 4, B=Steps((2,), ()), budget=400)["hi"] == float("inf")
    assert run_toy(8, 4, B=Steps((2, 1), (20,)), budget=400)["hi"] < 400


def test_each_schedule_is_compared_with_the_best_fixed_value(tmp_path: Path) -> None:
    given = {"T": (8,), "d": (4,), "p": (0, 0.4), "B": (1, 2), "seed": (0,)}
    axes = axes_of("schedules", "small", given)
    request = FigureRequest(tmp_path, "small", axes, budget=400, workers=1, progress=False)
    numbers = figure_schedules(request).numbers.set_index("quantity")["ours"]
    fixed = {p: float(numbers[f"steps to loss .1, p = {p}"]) for p in ("0", "0.4")}
    assert numbers["best fixed p"] == min(fixed, key=lambda each: fixed[each])
    for label in SHARES:
        ratio = float(numbers[f"times faster than the best fixed p, p = {label}"])
        assert ratio == pytest.approx(min(fixed.values()) / float(numbers[f"steps to loss .1, p = {label}"]), abs=1e-3)
    assert numbers["steps to loss .1, B = 2"] == "never"
    assert numbers["best fixed B"] == "1"
    assert len(numbers) == 6 + 2 * len(SHARES) + 2 * len(COPIES)
