"""Emergence intervals: crossings of a level by a curve without its noise, censoring, any unit, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.calibration.cases import checkpoints, logistic
from stagewise.papers.emergence_interval import _rising, _variance_near, emergence_interval, monotone_crossing


@pytest.mark.parametrize("kind", ["int64", "uint16", "float32"])
def test_steps_that_do_not_ascend_are_refused_whatever_their_type(kind: str) -> None:
    steps = np.array([0, 50, 100], dtype=kind)
    assert emergence_interval(steps, np.array([0.1, 0.2, 0.7]), 0.5) == (50, 100)
    with pytest.raises(ValueError, match="steps ascending"):
        emergence_interval(steps[::-1], np.array([0.1, 0.2, 0.7]), 0.5)


def test_a_loss_falls_to_its_threshold() -> None:
    steps, losses = np.array([0, 5, 9]), np.array([0.5, 0.3, 0.1])
    assert emergence_interval(steps, losses, 0.1, "down") == (5, 9)
    assert emergence_interval(steps, losses, 0.05, "down").censored


def test_the_first_crossing_counts_where_a_curve_comes_back() -> None:
    assert emergence_interval(np.array([0, 1, 2, 3]), np.array([0.0, 0.9, 0.1, 0.9]), 0.5) == (0, 1)


def test_a_first_value_that_stands_out_is_no_start_past_the_threshold() -> None:
    values = np.array([0.52, *[0.1] * 9, *[0.9] * 10])
    assert emergence_interval(10 * np.arange(20), values, 0.5) == (90, 100)


def test_a_run_that_diverged_says_where() -> None:
    with pytest.raises(ValueError, match="not finite at step 10"):
        emergence_interval(np.array([0, 10]), np.array([0.5, math.nan]), 0.1, "down")


def test_a_missing_value_is_not_said_to_have_diverged_for_sure() -> None:
    with pytest.raises(ValueError, match="at step 10: that run diverged, or misses that value"):
        emergence_interval(np.array([0, 10, 20]), np.array([0.0, np.nan, 1.0]), 0.5)


def test_steps_that_do_not_ascend_are_refused() -> None:
    with pytest.raises(ValueError, match="steps ascending; got 2 and 2"):
        emergence_interval(np.array([3, 3]), np.array([0.0, 1.0]), 0.5)
    with pytest.raises((ValueError, TypeError), match="direction"):
        emergence_interval(np.array([3]), np.array([0.0]), 0.5, "sideways")  # type: ignore[arg-type]


U = np.linspace(-3, 3, 61)
RISE = 1 / (1 + np.exp(-U / 0.5))


def test_a_curve_that_never_falls_crosses_between_two_values() -> None:
    assert monotone_crossing(RISE, 0.7) == (35, 35, 35)


def test_the_first_value_past_the_level_is_early_and_the_interval_is_not() -> None:
    generator = np.random.default_rng(0)
    curves = RISE + 0.08 * generator.standard_normal((60, len(U)))
    places = [monotone_crossing(curve, 0.5) for curve in curves]
    first = [int((curve >= 0.5).argmax()) for curve in curves]
    assert np.mean(first) < 29.8
    assert np.mean([one.first <= 30 <= one.last for one in places]) >= 0.9
    assert np.mean([one.best for one in places]) == pytest.approx(30.5, abs=0.4)


def test_a_rise_that_is_lost_again_counts_up_to_there() -> None:
    curve = np.concatenate([RISE, np.full(40, 0.1)])
    assert monotone_crossing(curve, 0.5) == monotone_crossing(RISE, 0.5)


def test_a_level_that_is_not_reached_lies_after_the_last_value() -> None:
    assert monotone_crossing(0.3 * RISE, 0.5) == (61, 61, 61)
    assert monotone_crossing(0.3 + RISE, 0.2).best == 0


def variance_of(draws: np.ndarray) -> float:
    return float(np.mean([_variance_near(one, np.zeros(len(one)), len(one) // 2) for one in draws]))


def test_white_noise_about_a_step_has_its_variance_or_somewhat_more_where_it_is_largest() -> None:
    values = np.repeat([0.0, 1.0], 200) + 0.1 * np.random.default_rng(0).standard_normal(400)
    assert 0.01 <= _variance_near(values, _rising(values), 200) <= 0.02


def test_noise_that_lasts_counts_for_more() -> None:
    white = np.random.default_rng(1).standard_normal((20, 403))
    slow = (white[:, :-3] + white[:, 1:-2] + white[:, 2:-1] + white[:, 3:]) / 2
    assert slow.var() == pytest.approx(white.var(), rel=0.1)
    assert variance_of(slow) > 2 * variance_of(white)


STEPS = checkpoints("log", 40)
RISES = 0.1 + 0.6 * logistic(STEPS, 300, 0.1) + 0.02 * np.random.default_rng(0).standard_normal(len(STEPS))
UNITS = {
    "size": st.builds(lambda sign, power: sign * 10.0**power, st.sampled_from([-1, 1]), st.floats(-290, 290)),
    "offset": st.floats(-1e8, 1e8),
}
"""A factor, and an offset in units of what was multiplied by it."""


@given(**UNITS)
@settings(max_examples=50)
def test_a_curve_emerges_at_the_same_steps_in_any_unit(size: float, offset: float) -> None:
    values, threshold = size * (RISES + offset), size * (0.4 + offset)
    found = emergence_interval(STEPS, values, threshold, "up" if size > 0 else "down")
    assert found == emergence_interval(STEPS, RISES, 0.4)


@pytest.mark.parametrize("threshold", [1e200, math.inf])
def test_a_threshold_far_above_a_curve_is_not_reached(threshold: float) -> None:
    assert emergence_interval(STEPS, RISES, threshold).censored


def test_a_threshold_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="the threshold must be a number, got nan"):
        emergence_interval(STEPS, RISES, math.nan)
