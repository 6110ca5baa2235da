"""Crossings of a level and of another curve: intervals, censoring, and what is refused."""

import math

import numpy as np
import pytest

from stagewise.statistics import crossing, emergence_interval
from stagewise.statistics._crossings import crossing_step, monotone_crossing, overtaking


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


STEPS = np.array([0, 10, 30, 70])


@pytest.mark.parametrize(
    ("values", "first", "for_good"),
    [
        ([0.0, 0.6, 0.4, 0.7], (0, 10), (30, 70)),
        ([0.9, 0.1, 0.1, 0.1], (0, 0), (70, math.inf)),
        ([0.9, 0.9, 0.9, 0.9], (0, 0), (0, 0)),
        ([0.1, 0.1, 0.1, 0.1], (70, math.inf), (70, math.inf)),
        ([0.1, 0.1, 0.5, 0.5], (10, 30), (10, 30)),
    ],
)
def test_a_level_is_crossed_the_first_time_or_for_good(
    values: list[float], first: tuple[float, float], for_good: tuple[float, float]
) -> None:
    curve = np.array(values)
    assert crossing(STEPS, curve, 0.5) == crossing(STEPS, -curve, -0.5, "down") == first
    assert crossing(STEPS, curve, 0.5, for_good=True) == for_good


def test_the_step_of_a_crossing_lies_in_its_interval_and_is_exact_for_a_straight_line_in_the_logarithm() -> None:
    line = np.log1p(STEPS)
    for level in np.linspace(0.1, 4, 9):
        lo, hi = crossing(STEPS, line, level)
        assert lo <= crossing_step(STEPS, line, level) <= hi
        assert crossing_step(STEPS, line, level) == pytest.approx(np.expm1(level))


def test_what_is_never_crossed_is_put_at_the_last_step_and_what_always_was_at_the_first() -> None:
    assert crossing_step(STEPS, np.zeros(4), 0.5) == pytest.approx(70)
    assert crossing_step(STEPS, np.ones(4), 0.5) == 0


def test_a_curve_overtakes_another_one_where_most_resamples_have_crossed_for_good() -> None:
    steps, noise = np.arange(0, 100, 10), 0.5 * np.random.default_rng(0).standard_normal((200, 1))
    before, after = np.full((1, 10), 4.5), 9.0 - np.arange(10.0)[None]
    assert overtaking(steps, before, after) == (40, 50)
    wide = overtaking(steps, before, after + noise)
    assert wide.lo <= 30
    assert wide.hi >= 60
    assert overtaking(steps, after, before + noise).censored
    assert overtaking(steps, before, after + 5) == (90, math.inf)


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
