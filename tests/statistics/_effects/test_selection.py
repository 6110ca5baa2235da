"""How many changes a curve has, each with the evidence that is asked."""

import numpy as np
import pytest

from stagewise.statistics._effects._selection import selected
from tests.statistics._effects.problems import S, problem_of

STEP, NOISE = np.arange(60), 0.05 * np.random.default_rng(0).standard_normal((3, 60))
CURVES = np.array([0 * STEP, STEP > 24, 0.5 * (STEP > 19) + 0.5 * (STEP > 39)]) + NOISE


@pytest.fixture(scope="module")
def selections() -> list[object]:
    return list(selected(problem_of(CURVES)))


def test_each_curve_has_as_many_changes_as_were_planted(selections: list) -> None:  # type: ignore[type-arg]
    assert [len(one.bayes) for one in selections] == [one.fits.changes for one in selections] == [0, 1, 2]


def test_each_change_that_stays_brings_the_threshold(selections: list) -> None:  # type: ignore[type-arg]
    assert all((one.bayes >= S.threshold[0]).all() for one in selections)
