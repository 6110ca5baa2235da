"""Fits: taken, joined, and with a change less."""

import numpy as np

from stagewise.statistics._effects._fits import joined
from tests.statistics._effects.problems import fits_of, problem_of

PROBLEM = problem_of(np.zeros((3, 20)))


def test_fits_that_are_taken_and_joined_again_are_the_same() -> None:
    fits = fits_of(PROBLEM, curve=[0, 1, 2], evidence=[1.0, 2.0, 3.0])
    again = joined([fits.take([0]), fits.take([1, 2])])
    assert len(again) == 3
    assert again.evidence.tolist() == [1, 2, 3]
    assert again.curve.tolist() == [0, 1, 2]


def test_a_change_that_is_taken_away_leaves_the_others_and_what_is_none() -> None:
    fits = fits_of(PROBLEM, curve=[0, 1], evidence=[0.0, 0.0], changes=2)
    fits = fits.take(slice(None), size=fits.size + np.arange(fits.size.shape[1])[:, None])
    left = fits.without(np.array([0, 1]))
    assert left.changes == 1
    assert left.size[:, :, 0].tolist() == [[1, *range(2, fits.size.shape[1])], [0, *range(2, fits.size.shape[1])]]
