"""What is found in a curve does not depend on the unit that it was logged in, nor on its offset."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.calibration.cases import checkpoints, logistic
from stagewise.checkpoints.logged_curves import read_log
from stagewise.criteria import OnsetVerdict
from stagewise.findings._frames import TIMES
from stagewise.findings.onsets import find_onsets
from stagewise.statistics import find_transitions

STEPS = checkpoints("log", 40)
RISE = 0.1 + 0.6 * logistic(STEPS, 300, 0.1) + 0.02 * np.random.default_rng(0).standard_normal(len(STEPS))
UNITS = {
    "size": st.builds(lambda sign, power: sign * 10.0**power, st.sampled_from([-1, 1]), st.floats(-290, 290)),
    "offset": st.floats(-1e8, 1e8),
}
"""A factor, and an offset in units of what was multiplied by it."""


@pytest.mark.parametrize("examples", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_a_transition_is_the_same_in_any_unit(examples: int) -> None:
    settings(max_examples=examples)(given(**UNITS)(the_same_transition))()


def the_same_transition(size: float, offset: float) -> None:
    (expected,), (found,) = (find_transitions(STEPS, curve[None]) for curve in (RISE, size * (RISE + offset)))
    (one,), (other,) = expected.transitions, found.transitions
    assert other.bayes == pytest.approx(one.bayes, rel=1e-2)
    np.testing.assert_allclose(other.times, one.times, rtol=1e-3)
    assert other.size / size == pytest.approx(one.size, rel=1e-3)
    for name in ("before", "after"):
        assert getattr(other, name) / size - offset == pytest.approx(getattr(one, name), abs=1e-3)
    assert other.noise / abs(size) == pytest.approx(one.noise, rel=1e-2)


def logged(values: np.ndarray) -> pd.DataFrame:
    return find_onsets(read_log({"step": STEPS, "score": values}))


@pytest.mark.parametrize("examples", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_a_logged_curve_has_the_same_onsets_in_any_unit(examples: int) -> None:
    settings(max_examples=examples)(given(**UNITS)(the_same_onsets))()


def the_same_onsets(size: float, offset: float) -> None:
    small = 3 * RISE + 0.1 * logistic(STEPS, 1500, 0.05)
    for curve in (RISE, small):
        (expected,), (found,) = (logged(each).to_dict("records") for each in (curve, size * (curve + offset)))
        assert expected["onset"]
        assert found["verdict"] == expected["verdict"]
        assert [found[name] for name in TIMES] == pytest.approx([expected[name] for name in TIMES], rel=1e-3)


def test_a_small_change_counts_in_percent_as_it_does_in_parts() -> None:
    slight = 0.7 * logistic(STEPS, 60, 0.05) + 0.06 * logistic(STEPS, 900, 0.05)
    noise = 0.002 * np.random.default_rng(0).standard_normal(len(STEPS))
    parts, percent = (logged(unit * (slight + noise)) for unit in (1, 100))
    assert parts["onset"].tolist() == percent["onset"].tolist() == [True, True]


@pytest.mark.one_of(3)
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_change_in_the_last_digit_is_rounding(kind: type[np.floating]) -> None:
    one = kind(0.7)
    rounding = logged(np.where(STEPS < 100, one, np.nextafter(one, kind(1))).astype(float))
    assert rounding["verdict"].tolist() == [OnsetVerdict.SMALL]
    assert logged(np.where(STEPS < 100, one, kind(0.8)).astype(float))["onset"].all()
