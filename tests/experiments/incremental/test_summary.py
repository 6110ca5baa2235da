"""Averages over seeds, against scipy's own interval and by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from stagewise.experiments.incremental._summary import over_seeds

SUMMARY = pd.DataFrame(
    {"variant": ["a", "a", "a", "b", "b", "b"], "seed": [0, 1, 2] * 2, "end_1": [100, 110, 150, 90, np.nan, np.nan]}
)


def test_the_interval_is_students() -> None:
    row = over_seeds(SUMMARY).set_index("variant").loc["a"]
    values = [100, 110, 150]
    expected = stats.t.interval(0.95, 2, loc=np.mean(values), scale=stats.sem(values))
    assert (row["mean"], row["lo"], row["hi"]) == pytest.approx((120, *expected))


def test_seeds_without_a_boundary_are_counted_and_one_value_has_no_interval() -> None:
    row = over_seeds(SUMMARY).set_index("variant").loc["b"]
    assert (row["mean"], row["n"], row["seeds"]) == (90, 1, 3)
    assert np.isnan(row["lo"])
