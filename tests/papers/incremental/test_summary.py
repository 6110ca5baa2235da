"""Averages over seeds, against scipy's own interval and by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from stagewise.papers.incremental._summary import over_seeds, run_numbers

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


def test_a_model_that_overfits_passes_no_stage() -> None:
    steps = np.arange(0, 900, 15)
    falls, rises = np.exp(-steps / 20), np.clip(steps - 60, 0, None) / 200
    rng = np.random.default_rng(0)
    kl = [
        pd.DataFrame({"step": steps, "value": 1.5 * falls + rises + 0.2 * i + 0.01 * rng.standard_normal(len(steps))})
        .assign(probe="KLToReference", quantity="kl", reference=f"first {i}", nested=i)
        for i in (1, 2, 3)
    ]  # fmt: skip
    excess = pd.DataFrame({"step": steps, "value": falls + rises}).assign(probe="Loss", quantity="excess")
    found = run_numbers(pd.concat([*kl, excess], ignore_index=True).assign(run="run"))
    assert (found["best_step"], found["stages"]) == (60, 1)
    assert "end_1" not in found
