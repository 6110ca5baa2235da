"""Intervals of means over few values hold nineteen of twenty, by deviations that many means share."""

import numpy as np
import pytest
from scipy import stats

from stagewise.probes._moderated import half_widths

SEED = 0


@pytest.mark.parametrize("n", [2, 4, 8])
def test_intervals_of_columns_with_their_own_deviations_hold_nineteen_of_twenty(n: int) -> None:
    generator = np.random.default_rng(SEED)
    scale = np.exp(generator.normal(0, 2, 5000))
    deviations = scale * np.sqrt(8 / generator.chisquare(8, 5000))
    values = generator.normal(0, deviations, (n, 5000))
    assert np.mean(np.abs(values.mean(0)) <= half_widths(values, scale)) == pytest.approx(0.95, abs=0.02)


def test_shared_draws_are_no_better_known_than_by_one_column() -> None:
    """All columns have the same deviations from their means, so that they all miss, or none."""
    generator = np.random.default_rng(SEED)
    draws = [np.repeat(values, 20, 1) for values in generator.normal(0, 1, (2000, 3, 1))]

    def held(shared: bool) -> float:
        widths = [half_widths(values, np.ones(20), shared=shared)[0] for values in draws]
        return float(np.mean([abs(values.mean()) <= width for values, width in zip(draws, widths, strict=True)]))

    assert held(shared=True) > 0.94
    assert held(shared=False) < 0.9


def test_one_column_has_students_interval() -> None:
    values = np.random.default_rng(SEED).normal(0, 1, (6, 1))
    lo, hi = stats.ttest_1samp(values[:, 0], 0).confidence_interval(0.95)
    assert half_widths(values, np.ones(1)) == pytest.approx((hi - lo) / 2)


def test_values_that_are_nan_do_not_count() -> None:
    values = np.random.default_rng(SEED).normal(0, 1, (4, 30))
    more = np.concatenate([values, np.full((3, 30), np.nan)])
    np.testing.assert_array_equal(half_widths(more, np.ones(30)), half_widths(values, np.ones(30)))


def test_columns_without_any_deviation_have_no_width() -> None:
    assert half_widths(np.ones((2, 3)), np.zeros(3)).tolist() == [0, 0, 0]
