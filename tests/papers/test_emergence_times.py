"""Emergence times: intervals, censoring, and what is refused."""

import math

import pandas as pd
import pytest

from stagewise.papers.emergence_times import find_emergence_times
from stagewise.statistics import Interval
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
    found = find_emergence_times(table_of({"a": [0.1, 0.2, 0.6, 0.9]}), "Accuracy", "accuracy", 0.5)
    assert found.to_dict("records") == [{"run": "a", "lo": 10.0, "hi": 20.0, "censored": False}]


def test_a_run_that_never_crosses_is_censored_at_its_last_step() -> None:
    found = find_emergence_times(table_of({"a": [0.1, 0.2], "b": [0.0, 0.7]}), "Accuracy", "accuracy", 0.5)
    assert list(found.set_index("run").loc["a"]) == [10.0, math.inf, True]
    assert Interval(10.0, math.inf).censored
    assert not Interval(0.0, 10.0).censored


def test_a_curve_that_starts_past_its_threshold_is_no_emergence() -> None:
    with pytest.raises(ValueError, match=r"run 'a': the curve starts past the threshold 0\.05: 0\.1 at step 0"):
        find_emergence_times(table_of({"a": [0.1, 0.9]}), "Accuracy", "accuracy", 0.05)


def test_several_rows_a_step_ask_for_a_choice() -> None:
    table = pd.concat([table_of({"a": [0.1, 0.9]}), table_of({"a": [0.1, 0.2]}, layer=1)])
    with pytest.raises(ValueError, match="choose a value of layer"):
        find_emergence_times(table, "Accuracy", "accuracy", 0.5)
    assert not find_emergence_times(table, "Accuracy", "accuracy", 0.5, layer=0)["censored"].any()
