"""Coordinate ascent: posteriors sum to one, the evidence does not fall, and one effect has its closed form."""

import numpy as np
import pytest

from stagewise.statistics._effects._ascent import ascended
from stagewise.statistics._effects._atoms import Kind
from stagewise.statistics._effects._covariances import Setting
from stagewise.statistics._effects._search import screened
from tests.statistics._effects.problems import fits_of, problem_of

JUMP = (np.arange(30) > 14) + 0.05 * np.random.default_rng(0).standard_normal((2, 30))
PROBLEM = problem_of(JUMP)
WHITE = PROBLEM.covariances.settings.index(Setting())
START = screened(PROBLEM, fits_of(PROBLEM, [0, 1], [0.0, 0.0], [WHITE, WHITE]))


def test_the_posterior_of_each_effect_sums_to_one() -> None:
    assert ascended(PROBLEM, START, 4).shape.sum(2) == pytest.approx(1, abs=1e-4)


def test_more_sweeps_have_no_less_evidence() -> None:
    evidence = [ascended(PROBLEM, START, sweeps).evidence for sweeps in (2, 4, 16)]
    assert (np.diff(evidence, axis=0) > -0.05).all()


def test_a_clear_jump_is_in_its_gap_and_its_size_shrinks_by_what_the_prior_says() -> None:
    fits = ascended(PROBLEM, START, 16)
    jump = PROBLEM.atoms.jumps[14]
    for fit in range(2):
        (place,) = np.flatnonzero(fits.atoms[fit] == jump)
        assert fits.shape[fit, 0, place] > 0.9
        curve = JUMP[fit]
        size, norm = curve[15:].mean() - curve[:15].mean(), 15 * 15 / 30
        shrunk = size * fits.variance[fit] / (fits.variance[fit] + fits.noise[fit] / norm)
        assert fits.size[fit, 0, place] == pytest.approx(shrunk, abs=0.02)
        assert PROBLEM.atoms.kind[jump] == Kind.CHANGE
