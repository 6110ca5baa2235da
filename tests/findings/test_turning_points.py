"""Turning points: where a curve is lowest, and by which criteria that is a turning point."""

import math

import numpy as np
import pytest

from stagewise.criteria import DEFAULT, StageCriteria, TurnVerdict
from stagewise.findings._from_references import rejection
from stagewise.findings._turning_points import Turn, from_first_peak, slowdown, turning_point
from stagewise.statistics import Signals, signals

STEPS = np.arange(0, 600, 10)
GENERATOR = np.random.default_rng(0)
NOISE = 0.01 * GENERATOR.standard_normal(len(STEPS))


def curve(values: np.ndarray) -> Signals:
    return signals(STEPS, values)


def exact(values: np.ndarray) -> Signals:
    """A curve that is known as it is."""
    return Signals(STEPS.astype(float), values[None].astype(float), STEPS.astype(float))


VALLEY = curve(np.abs(STEPS - 300) / 300 + 0.5 + NOISE)


def test_a_valley_has_its_lowest_point_in_the_interval_and_its_depths() -> None:
    lowest = turning_point(VALLEY)
    assert lowest.lo <= 300 <= lowest.hi
    assert (lowest.start, lowest.value, lowest.fall, lowest.rise) == pytest.approx((1.5, 0.5, 1.0, 0.97), abs=0.05)
    assert lowest.p_value < 0.01


def test_the_minimum_between_a_steep_fall_and_a_slow_rise_lies_in_its_interval() -> None:
    steps = np.arange(0, 901, 15)
    fall, rise = (
        1 / (1 + np.exp((np.log1p(at) - np.log1p(steps)) / width)) for at, width in ((240, 0.03), (1500, 0.5))
    )
    values, noise = 2.7 - 2.4 * fall + 0.8 * rise, 0.005 * np.random.default_rng(0).standard_normal((20, len(steps)))
    lowest = [turning_point(signals(steps, values + one)) for one in noise]
    assert sum(one.lo <= 298 <= one.hi for one in lowest) >= 18
    assert np.median([one.hi - one.lo for one in lowest]) <= 90


def test_a_curve_that_only_falls_does_not_turn_up() -> None:
    assert rejection(turning_point(curve(1 - STEPS / 600 + NOISE)), DEFAULT) == TurnVerdict.NO_RISE
    noisy = curve(1 - STEPS / 600 + 20 * NOISE)
    assert rejection(turning_point(noisy), DEFAULT) in (TurnVerdict.NO_RISE, TurnVerdict.NOISE)


def test_a_rise_that_half_of_the_draws_do_not_have_is_noise() -> None:
    falls, turns = 2 - STEPS / 600, np.abs(STEPS - 300) / 300 + 1
    drawn = exact(falls)._replace(draws=np.stack([falls, turns] * 50))
    lowest = turning_point(drawn)
    assert lowest.p_value == pytest.approx(51 / 101)
    assert rejection(turning_point(exact(turns)), StageCriteria(significance=0.6)) is None
    assert rejection(lowest._replace(rise=0.5, fall=1.0), DEFAULT) == TurnVerdict.NOISE


def test_the_smallest_p_value_is_one_over_the_draws() -> None:
    assert turning_point(signals(STEPS, np.abs(STEPS - 300) / 300 + NOISE, number=99)).p_value == 0.01


def test_a_minimum_between_checkpoints_is_enclosed_by_those_next_to_the_lowest_one() -> None:
    lowest = turning_point(exact((STEPS - 304.0) ** 2))
    assert (lowest.lo, lowest.step, lowest.hi) == (290, 300, 310)


def test_a_minimum_of_a_long_curve_is_one_of_its_checkpoints() -> None:
    middles = np.arange(4.5, 600.0, 10.0)
    lowest = turning_point(Signals(middles, (middles - 304.5)[None] ** 2, np.arange(600.0)))
    assert (lowest.lo, lowest.step, lowest.hi) == (294, 304, 315)
    first = turning_point(Signals(middles, middles[None], np.arange(600.0)))
    assert (first.lo, first.step, first.hi) == (0, 4, 15)


def test_a_curve_that_rises_first_counts_from_its_peak() -> None:
    hill = exact(np.where(STEPS < 100, STEPS / 100, 1 - (STEPS - 100) / 1000))
    assert from_first_peak(hill).steps[0] == 100
    assert len(from_first_peak(exact(STEPS / 600)).steps) == 1


def test_a_plateau_is_slow_and_a_straight_fall_in_the_logarithm_is_not() -> None:
    two_falls = 2 - 1 / (1 + (50 / (STEPS + 1)) ** 8) - 1 / (1 + (400 / (STEPS + 1)) ** 8)
    assert slowdown(curve(two_falls + 0.1 * NOISE), 100, 250, 1.15, 3, 0.7) < 0.2
    assert slowdown(curve(8 - np.log1p(STEPS) + 0.1 * NOISE), 100, 250, 1.15, 3, 0.7) > 0.7
    assert math.isnan(slowdown(curve(two_falls + 0.1 * NOISE), 100, 250, 1.15, 1e6, 0.7))


def test_a_minimum_is_later_than_another_one_beyond_both_errors() -> None:
    first = Turn(100, 90, 115, 2.0, 0.1, 1.9, 0.5, 0.001)
    later = [first._replace(step=step, lo=lo).is_later_than(first) for step, lo in ((110, 100), (150, 130))]
    assert later == [False, True]
