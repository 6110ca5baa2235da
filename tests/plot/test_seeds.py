"""Curves of several runs: the mean over seeds at the steps that all have, with its interval."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from stagewise.plot.seeds import _band, over_seeds

STEPS = np.array([0, 10, 20, 30])
VALUES = np.random.default_rng(0).normal(size=(4, len(STEPS)))


def rows(**labels: str) -> pd.DataFrame:
    frames = [pd.DataFrame({"run": f"seed {i}", "step": STEPS, "value": one}) for i, one in enumerate(VALUES)]
    return pd.concat(frames).assign(probe="Loss", quantity="cross_entropy", **labels)


def test_the_band_is_students_interval_of_the_mean() -> None:
    found = _band(rows())
    expected = stats.t.interval(0.95, 3, loc=VALUES.mean(0), scale=stats.sem(VALUES))
    np.testing.assert_allclose([found.lo, found.hi], expected)
    np.testing.assert_allclose(found.each, VALUES)


def test_the_band_of_few_seeds_is_their_range() -> None:
    table = rows()
    found = _band(table[table["run"].isin(["seed 0", "seed 1"])])
    np.testing.assert_allclose([found.lo, found.hi], [VALUES[:2].min(0), VALUES[:2].max(0)])


def test_steps_that_a_seed_lacks_are_left_out() -> None:
    table = rows()
    lacking = table[~((table["run"] == "seed 2") & (table["step"] == 10))]
    assert _band(lacking).steps.tolist() == [0, 20, 30]
    alone = table.assign(step=table["step"] + (table["run"] == "seed 0"))
    with pytest.raises(ValueError, match="the runs have no step in common"):
        _band(alone)


def test_a_line_a_curve_and_each_seed_thin() -> None:
    table = pd.concat([rows(reference="a"), rows(reference="b")])
    axes = over_seeds(table, "Loss", "cross_entropy")
    labels = [str(line.get_label()) for line in axes.get_lines()]
    assert [label for label in labels if not label.startswith("_")] == ["reference a", "reference b"]
    assert len(labels) == 2 + 2 * len(VALUES)
