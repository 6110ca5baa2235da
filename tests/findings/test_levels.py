"""Levels of the whole model's curves before and after each transition."""

import numpy as np
import pandas as pd
import pytest

from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings._levels import levels_of
from stagewise.findings._scores import followed, of_whole_model
from stagewise.findings.stages import find_stages

STEPS = np.arange(0, 2000, 20)
JUMP = 1 / (1 + np.exp(-(STEPS - 800) / 30.0))


def test_levels_are_those_that_a_reader_finds_on_the_curve() -> None:
    noisy = 0.1 + 0.8 * JUMP + 0.01 * np.random.default_rng(0).standard_normal(len(STEPS))
    before, after = find_stages(read_log({"step": STEPS, "accuracy": noisy})).levels.to_dict("records")
    assert before["after"] == after["before"] == pytest.approx(0.1, abs=0.04)
    assert after["after"] == pytest.approx(0.9, abs=0.04)


def test_heads_and_curves_that_are_not_finite_have_none(one_onset: pd.DataFrame) -> None:
    assert levels_of(of_whole_model(followed(one_onset)), [0.0], 9).empty
    table = read_log({"step": STEPS, "loss": JUMP})
    table.loc[5, "value"] = np.nan
    assert levels_of(of_whole_model(followed(table)), [0.0], 2000).empty
