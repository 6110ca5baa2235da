"""What is found in a curve does not depend on the unit that it was logged in, nor on its offset."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stagewise.detection.thresholds import emergence_interval
from stagewise.detection.transitions import find_transitions
from tests.calibration.cases import checkpoints, logistic

STEPS = checkpoints("log", 40)
RISE = 0.1 + 0.6 * logistic(STEPS, 300, 0.1) + 0.02 * np.random.default_rng(0).standard_normal(len(STEPS))
UNITS = {
    "size": st.builds(lambda sign, power: sign * 10.0**power, st.sampled_from([-1, 1]), st.floats(-290, 290)),
    "offset": st.floats(-1e8, 1e8),
}
"""A factor, and an offset in units of what was multiplied by it."""


@given(**UNITS)
@settings(max_examples=20, deadline=None)
def test_a_transition_is_the_same_in_any_unit(size: float, offset: float) -> None:
    (expected,), (found,) = (find_transitions(STEPS, curve[None]) for curve in (RISE, size * (RISE + offset)))
    assert math.log(found.p_value) == pytest.approx(math.log(expected.p_value), rel=1e-4)
    (one,), (other,) = expected.transitions, found.transitions
    np.testing.assert_allclose(other.times, one.times, rtol=1e-4)
    for name in ("size", "change"):
        assert getattr(other, name) / size == pytest.approx(getattr(one, name), rel=1e-4)
    for name in ("before", "after"):
        assert getattr(other, name) / size - offset == pytest.approx(getattr(one, name), abs=1e-4)
    assert other.noise / abs(size) == pytest.approx(one.noise, rel=1e-4)


@given(**UNITS)
@settings(max_examples=50, deadline=None)
def test_a_curve_emerges_at_the_same_steps_in_any_unit(size: float, offset: float) -> None:
    values, threshold = size * (RISE + offset), size * (0.4 + offset)
    found = emergence_interval(STEPS, values, threshold, "up" if size > 0 else "down")
    assert found == emergence_interval(STEPS, RISE, 0.4)


@pytest.mark.parametrize("threshold", [1e200, math.inf])
def test_a_threshold_far_above_a_curve_is_not_reached(threshold: float) -> None:
    assert emergence_interval(STEPS, RISE, threshold).censored


def test_a_threshold_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="the threshold must be a number, got nan"):
        emergence_interval(STEPS, RISE, math.nan)
