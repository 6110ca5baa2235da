"""Crossings of a level and of another curve: when, and in how many resamples."""

import math

import numpy as np
import pytest

from stagewise.statistics import crossing
from stagewise.statistics._crossings import crossing_step, overtaking

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
