"""Turning points: where a curve is lowest, and by which criteria that is a turning point."""

import numpy as np
import pytest

from stagewise.statistics import Curve, StageCriteria, TurnVerdict, turning_point
from stagewise.statistics._differences import correlated_noise
from stagewise.statistics._turning_points import Turn, from_first_peak, rate_of, slowdown

STEPS = np.arange(0, 600, 10)
GENERATOR = np.random.default_rng(0)
NOISE = 0.01 * GENERATOR.standard_normal(len(STEPS))


def curve(values: np.ndarray) -> Curve:
    return Curve(STEPS.astype(float), values)


VALLEY = curve(np.abs(STEPS - 300) / 300 + 0.5 + NOISE)


@pytest.mark.parametrize(("rate", "least", "most"), [(0.0, 0.0, 0.2), (0.5, 0.4, 0.7), (0.9, 0.8, 1.0)])
def test_the_correlation_of_noise_is_told_beside_a_rise_that_bends(rate: float, least: float, most: float) -> None:
    u = np.log1p(STEPS)
    shape = 2.0 - 1.8 / (1 + np.exp(-(u - 3.0) / 0.1)) + 0.8 / (1 + np.exp(-(u - 5.5) / 0.1))
    draws = correlated_noise(np.random.default_rng(0), 0.01, rate, (200, len(STEPS)))
    assert least <= np.median([rate_of(curve(shape + noise)) for noise in draws]) <= most


def test_an_exact_curve_has_a_correlation_too() -> None:
    assert 0 <= rate_of(curve(np.abs(STEPS - 150) / 300.0)) < 1
    assert 0 <= rate_of(curve(np.minimum(STEPS, 0.0))) < 1


def test_a_valley_has_its_lowest_point_in_the_interval_and_its_depths() -> None:
    lowest = turning_point(VALLEY)
    assert lowest.lo <= 300 <= lowest.hi
    assert (lowest.start, lowest.value, lowest.fall, lowest.rise) == pytest.approx((1.5, 0.5, 1.0, 0.97), abs=0.05)
    assert lowest.p_value < 0.01
    assert lowest.rejection() is None


def test_the_minimum_between_a_steep_fall_and_a_slow_rise_lies_in_its_interval() -> None:
    steps = np.arange(0, 901, 15)
    fall, rise = (
        1 / (1 + np.exp((np.log1p(at) - np.log1p(steps)) / width)) for at, width in ((240, 0.03), (1500, 0.5))
    )
    values, noise = 2.7 - 2.4 * fall + 0.8 * rise, 0.005 * np.random.default_rng(0).standard_normal((20, len(steps)))
    lowest = [turning_point(Curve(steps, values + one)) for one in noise]
    assert sum(one.lo <= 298 <= one.hi for one in lowest) >= 18
    assert np.median([one.hi - one.lo for one in lowest]) <= 90


def test_a_curve_that_only_falls_does_not_turn_up() -> None:
    assert turning_point(curve(1 - STEPS / 600 + NOISE)).rejection() == TurnVerdict.NO_RISE
    noisy = curve(1 - STEPS / 600 + 20 * NOISE)
    assert turning_point(noisy).rejection(StageCriteria(depth=0.0)) == TurnVerdict.NOISE


def test_the_smallest_p_value_is_one_over_the_simulations() -> None:
    assert turning_point(VALLEY, StageCriteria(simulations=99)).p_value == 0.01


def test_the_same_seed_gives_the_same_turn() -> None:
    noisy = curve(VALLEY.values + 30 * NOISE)
    assert turning_point(noisy) == turning_point(noisy, seed=0)


def test_a_curve_that_rises_first_counts_from_its_peak() -> None:
    hill = curve(np.where(STEPS < 100, STEPS / 100, 1 - (STEPS - 100) / 1000))
    assert from_first_peak(hill).steps[0] == pytest.approx(100, abs=10)
    assert len(from_first_peak(curve(STEPS / 600)).steps) == 1


def test_a_plateau_is_slow_and_a_straight_fall_in_the_logarithm_is_not() -> None:
    two_falls = 2 - 1 / (1 + (50 / (STEPS + 1)) ** 8) - 1 / (1 + (400 / (STEPS + 1)) ** 8)
    assert slowdown(curve(two_falls + 0.1 * NOISE), 100, 250) < 0.2
    assert slowdown(curve(8 - np.log1p(STEPS) + 0.1 * NOISE), 100, 250) > 0.7
    assert slowdown(curve(two_falls + 0.1 * NOISE), 100, 250, StageCriteria(peak=1e6)) == 1.0


def test_noise_that_other_curves_show_to_be_slow_makes_a_rise_less_sure() -> None:
    steps = np.arange(0, 600, 10)
    values = 2 - 1.5 * steps / 600 + 0.05 * np.random.default_rng(3).standard_normal(60).cumsum()
    curve = Curve(steps, values)
    assert turning_point(curve, rate=0.9).p_value >= turning_point(curve).p_value
    assert turning_point(curve, rate=0.0).p_value == turning_point(curve).p_value


def test_a_minimum_is_later_than_another_one_beyond_both_errors() -> None:
    first = Turn(100, 90, 115, 2.0, 0.1, 1.9, 0.5, 0.001)
    later = [first._replace(step=step, lo=lo).is_later_than(first) for step, lo in ((110, 100), (150, 130))]
    assert later == [False, True]
