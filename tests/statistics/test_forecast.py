"""Forecasts from arrays: right where the form of the growth is, open where nothing grows."""

import math

import numpy as np
import pytest
from scipy.special import erfinv, expit

from stagewise.statistics import forecast
from stagewise.statistics._forecast import blow_up_share

STEPS = np.arange(0, 600, 10)


def test_attention_that_follows_its_form_is_foretold_to_the_level() -> None:
    odds = -4 + erfinv(STEPS / 1000) ** 2
    found = forecast(STEPS, expit(odds), (0.1, 0.1))
    end = 1000 * blow_up_share(np.array([math.log(0.1 / 0.9) + 4]))[0]
    assert found.step == pytest.approx(end, rel=0.03)
    assert found.lo <= end <= found.hi


def test_the_course_of_a_theory_stands_in_for_a_form() -> None:
    course = expit(-4 + (np.arange(0, 2000, 10) / 700) ** 3)
    found = forecast(STEPS, course[: len(STEPS)], (0.5, 0.5), theory=(np.arange(0.0, 2000, 10), course))
    assert found.step == pytest.approx(700 * 4 ** (1 / 3), rel=0.05)


def test_nothing_that_grows_has_no_end_and_few_readings_are_refused() -> None:
    assert math.isinf(forecast(STEPS, np.full(60, 0.1), (0.5, 0.6)).step)
    with pytest.raises(ValueError, match=r"a forecast needs 8 checkpoints, there are 0$"):
        forecast(STEPS[:0], np.empty(0), (0.5, 0.6))
