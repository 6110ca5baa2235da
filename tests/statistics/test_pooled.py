"""Means over seeds agree with Student's interval where it applies, and hold what they say they hold."""

import numpy as np
import pytest
from scipy import stats

from stagewise.statistics import pooled


def test_equal_errors_give_the_t_interval_over_seeds() -> None:
    values = np.random.default_rng(0).normal(5, 1, 6)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    mean = pooled(values, np.full(6, 0.1))
    assert (mean.lo, mean.hi) == pytest.approx(tuple(expected))
    assert mean.between**2 == pytest.approx(values.var(ddof=1) - 0.01)


def test_seeds_that_agree_better_than_their_errors_have_nothing_between_them() -> None:
    assert pooled(np.array([1.0, 1.001, 0.999]), np.full(3, 0.2)).between == 0


def test_one_seed_says_nothing_of_others() -> None:
    assert pooled(np.array([3.0]), np.array([0.1]))[:3] == (3.0, -np.inf, np.inf)


def test_the_interval_of_another_seed_holds_nineteen_of_twenty() -> None:
    generator = np.random.default_rng(0)
    draws = generator.normal(0, 0.3, (400, 6)) + generator.normal(0, 0.1, (400, 6))
    means = [pooled(draw[:5], np.full(5, 0.1)) for draw in draws]
    held = [one.new_lo <= draw[5] <= one.new_hi for one, draw in zip(means, draws, strict=True)]
    assert np.mean(held) == pytest.approx(0.95, abs=0.03)
