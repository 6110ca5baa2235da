"""Emergence times: intervals, censoring, and what is refused."""

import math

import numpy as np
import pandas as pd
import pytest

from stagewise.findings.thresholds import Interval, crossing, crossing_step, emergence_interval, emergence_times
from stagewise.table import tidy


def table_of(curves: dict[str, list[float]], layer: int = 0) -> pd.DataFrame:
    frames = [
        pd.DataFrame({"step": range(0, 10 * len(values), 10), "value": values}).assign(
            run=run, probe="Accuracy", quantity="accuracy", layer=layer
        )
        for run, values in curves.items()
    ]
    return tidy(frames)


def test_the_interval_lies_between_the_evaluations_around_the_crossing() -> None:
    found = emergence_times(table_of({"a": [0.1, 0.2, 0.6, 0.9]}), "Accuracy", "accuracy", 0.5)
    assert found.to_dict("records") == [{"run": "a", "lo": 10.0, "hi": 20.0, "censored": False}]


def test_a_run_that_never_crosses_is_censored_at_its_last_step() -> None:
    found = emergence_times(table_of({"a": [0.1, 0.2], "b": [0.0, 0.7]}), "Accuracy", "accuracy", 0.5)
    assert list(found.set_index("run").loc["a"]) == [10.0, math.inf, True]
    assert Interval(10.0, math.inf).censored
    assert not Interval(0.0, 10.0).censored


@pytest.mark.parametrize("kind", ["int64", "uint16", "float32"])
def test_steps_that_do_not_ascend_are_refused_whatever_their_type(kind: str) -> None:
    steps = np.array([0, 50, 100], dtype=kind)
    assert emergence_interval(steps, np.array([0.1, 0.2, 0.7]), 0.5) == (50, 100)
    with pytest.raises(ValueError, match="steps ascending"):
        emergence_interval(steps[::-1], np.array([0.1, 0.2, 0.7]), 0.5)


def test_a_loss_falls_to_its_threshold() -> None:
    steps, losses = np.array([0, 5, 9]), np.array([0.5, 0.3, 0.1])
    assert emergence_interval(steps, losses, 0.1, "down") == (5, 9)
    assert emergence_interval(steps, losses, 0.05, "down").censored


def test_the_first_crossing_counts_where_a_curve_comes_back() -> None:
    assert emergence_interval(np.array([0, 1, 2, 3]), np.array([0.0, 0.9, 0.1, 0.9]), 0.5) == (0, 1)


def test_a_curve_that_starts_past_its_threshold_is_no_emergence() -> None:
    with pytest.raises(ValueError, match=r"run 'a': the curve starts past the threshold 0\.05: 0\.1 at step 0"):
        emergence_times(table_of({"a": [0.1, 0.9]}), "Accuracy", "accuracy", 0.05)


def test_a_first_value_that_stands_out_is_no_start_past_the_threshold() -> None:
    values = np.array([0.52, *[0.1] * 9, *[0.9] * 10])
    assert emergence_interval(10 * np.arange(20), values, 0.5) == (90, 100)


def test_a_run_that_diverged_says_where() -> None:
    with pytest.raises(ValueError, match="not finite at step 10"):
        emergence_interval(np.array([0, 10]), np.array([0.5, math.nan]), 0.1, "down")


def test_a_missing_value_is_not_said_to_have_diverged_for_sure() -> None:
    with pytest.raises(ValueError, match="at step 10: that run diverged, or misses that value"):
        emergence_interval(np.array([0, 10, 20]), np.array([0.0, np.nan, 1.0]), 0.5)


def test_several_rows_a_step_ask_for_a_choice() -> None:
    table = pd.concat([table_of({"a": [0.1, 0.9]}), table_of({"a": [0.1, 0.2]}, layer=1)])
    with pytest.raises(ValueError, match="choose a value of layer"):
        emergence_times(table, "Accuracy", "accuracy", 0.5)
    assert not emergence_times(table, "Accuracy", "accuracy", 0.5, layer=0)["censored"].any()


def test_steps_that_do_not_ascend_are_refused() -> None:
    with pytest.raises(ValueError, match="steps ascending; got 2 and 2"):
        emergence_interval(np.array([3, 3]), np.array([0.0, 1.0]), 0.5)
    with pytest.raises((ValueError, TypeError), match="direction"):
        emergence_interval(np.array([3]), np.array([0.0]), 0.5, "sideways")  # type: ignore[arg-type]


STEPS = np.array([0, 10, 30, 70])


@pytest.mark.parametrize(
    ("values", "first", "for_good"),
    [
        ([0.0, 0.6, 0.4, 0.7], (0, 10), (30, 70)),
        ([0.9, 0.1, 0.1, 0.1], (0, 0), (70, math.inf)),
        ([0.9, 0.9, 0.9, 0.9], (0, 0), (0, 0)),
        ([0.1, 0.1, 0.1, 0.1], (70, math.inf), (70, math.inf)),
        ([0.1, 0.1, 0.5, 0.5], (10, 30), (10, 30)),
    ],
)
def test_a_level_is_crossed_the_first_time_or_for_good(
    values: list[float], first: tuple[float, float], for_good: tuple[float, float]
) -> None:
    curve = np.array(values)
    assert crossing(STEPS, curve, 0.5) == crossing(STEPS, -curve, -0.5, "down") == first
    assert crossing(STEPS, curve, 0.5, for_good=True) == for_good


def test_the_step_of_a_crossing_lies_in_its_interval_and_is_exact_for_a_straight_line_in_the_logarithm() -> None:
    line = np.log1p(STEPS)
    for level in np.linspace(0.1, 4, 9):
        lo, hi = crossing(STEPS, line, level)
        assert lo <= crossing_step(STEPS, line, level) <= hi
        assert crossing_step(STEPS, line, level) == pytest.approx(np.expm1(level))


def test_what_is_never_crossed_is_put_at_the_last_step_and_what_always_was_at_the_first() -> None:
    assert crossing_step(STEPS, np.zeros(4), 0.5) == pytest.approx(70)
    assert crossing_step(STEPS, np.ones(4), 0.5) == 0
