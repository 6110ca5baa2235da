"""Planted curves: the steps of their checkpoints, their noise, and their true times."""

import numpy as np
import pytest

from evidence.calibration.cases import LAST, NOISES, PLANTED, checkpoints, correlated
from evidence.calibration.onsets import NUMBERS

ONE_RISE = sorted(name for name in PLANTED if name.startswith(("sigmoid", "ramp", "late")))


@pytest.mark.parametrize("spacing", ["lin", "log"])
@pytest.mark.parametrize("number", NUMBERS)
def test_checkpoints_are_as_many_as_asked_for_and_span_the_run(spacing: str, number: int) -> None:
    steps = checkpoints(spacing, number)
    assert (len(steps), steps[0], steps[-1]) == (number, 0, LAST)
    assert (np.diff(steps) > 0).all()


@pytest.mark.parametrize("name", ONE_RISE)
def test_a_curve_with_one_rise_crosses_each_share_at_its_planted_time(name: str) -> None:
    steps = np.expm1(np.linspace(0, np.log1p(LAST), 4001))
    curve = PLANTED[name](np.random.default_rng(0), steps)
    assert np.interp(curve.times[0], steps, curve.values) == pytest.approx([0.1, 0.5, 0.9], abs=0.01)


@pytest.mark.parametrize(("name", "correlation"), [("white", 0.0), ("AR .5", 0.5), ("AR .9", 0.9)])
def test_noise_has_the_correlation_of_its_name_and_one_deviation(name: str, correlation: float) -> None:
    noise = NOISES[name](np.random.default_rng(0), 20_000)
    assert np.corrcoef(noise[1:], noise[:-1])[0, 1] == pytest.approx(correlation, abs=0.03)
    assert noise.std() == pytest.approx(0.03, rel=0.1)


def test_correlated_noise_of_no_correlation_is_the_generators_own() -> None:
    own = np.random.default_rng(1).standard_normal(9)
    np.testing.assert_array_equal(correlated(np.random.default_rng(1), 9, 0.0, 2.0), 2 * own)
