"""Repetition that ends: the toy model along a schedule, and its steps beside those of the best fixed value."""

import dataclasses
from pathlib import Path

import pytest

from stagewise.papers.emergence._grids import FigureRequest, axes_of
from stagewise.papers.emergence._runs import Learned
from stagewise.papers.emergence._schedules import (
    COPIES,
    RECALL_COPIES,
    RECALL_SHARES,
    SHARES,
    _until_learned,
    figure_repetition,
    figure_schedules,
)
from stagewise.papers.emergence.recipes import recall_recipe
from stagewise.papers.emergence.toy_attention import run_toy
from stagewise.value_schedules import Ramp, Steps

pytestmark = pytest.mark.usefixtures("unchecked")

_DIGITS = 5e-3
"""Half of the third digit, to which rows are rounded, of the smallest number that has it."""


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
        steps = float(numbers[f"steps to loss .1, p = {label}"])
        assert ratio == pytest.approx(min(fixed.values()) / steps, rel=_DIGITS)
    assert numbers["steps to loss .1, B = 2"] == "never"
    assert numbers["best fixed B"] == "1"
    assert len(numbers) == 6 + 2 * len(SHARES) + 2 * len(COPIES)


def test_recall_takes_every_schedule_and_both_parts_share_the_runs_without_repetition(tmp_path: Path) -> None:
    given = {"N_pairs": (4,), "N_tokens": (8,), "p": (0, 0.4), "B": (1, 2), "seed": (0,)}
    axes = axes_of("repetition", "small", given)
    request = FigureRequest(tmp_path, "small", axes, budget=2, workers=1, progress=False)
    numbers = figure_repetition(request).numbers.set_index("quantity")["ours"]
    assert numbers["steps to accuracy .8, p = .8 to 0 by 800"] == "never"
    assert numbers["steps to accuracy .8, B = 4 to 1 at 800"] == "never"
    assert len(numbers) == 6 + 2 * len(RECALL_SHARES) + 2 * len(RECALL_COPIES)
    assert len([*(tmp_path / "runs").iterdir()]) == 3 + len(RECALL_SHARES) + len(RECALL_COPIES)


def test_training_goes_on_until_repetition_has_ended_or_to_its_end_where_it_stays() -> None:
    base = recall_recipe(2, 8, budget=400)
    assert _until_learned(dataclasses.replace(base, schedules={"task.p": Steps((0.4,), ())})) is None
    log = _until_learned(dataclasses.replace(base, schedules={"task.n_copies": Steps((2, 1), (150,))}))
    assert log is not None
    for step in range(250):
        log({"step": step, "loss": 0.0})
    with pytest.raises(Learned):
        log({"step": 250, "loss": 0.0})
