"""Crossings of noisy curves: exact without noise, unbiased with it, and never sure of what was not seen."""

import numpy as np
import pytest

from stagewise.statistics._monotone_crossing import monotone_crossing

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
