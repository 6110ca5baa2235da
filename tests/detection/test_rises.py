"""Rises: levels, times, and the criteria by which they are none."""

import numpy as np
import pandas as pd
import pytest

from stagewise.detection.criteria import StageCriteria
from stagewise.detection.rises import PARTS, rise, rise_times
from stagewise.detection.verdicts import OnsetVerdict

STEPS = np.unique(np.concatenate([np.arange(0, 9), np.geomspace(10, 3000, 40).astype(int)])).astype(float)
NOISE = 0.01 * np.random.default_rng(0).standard_normal(len(STEPS))
SIGMOID = 1 / (1 + np.exp(-(np.log1p(STEPS) - np.log1p(200)) / 0.1))
CURVE = 0.1 + 0.6 * SIGMOID + NOISE


def test_a_rise_has_the_levels_before_and_after_it() -> None:
    largest = rise(STEPS, CURVE)
    assert (largest.base, largest.top) == pytest.approx((0.1, 0.7), abs=0.01)
    assert largest.noise == pytest.approx(0.01, rel=0.6)
    assert largest.rejection() is None


def test_the_largest_of_two_rises_is_the_one() -> None:
    early = 1 / (1 + np.exp(-(np.log1p(STEPS) - np.log1p(20)) / 0.1))
    assert rise(STEPS, 0.2 * early + CURVE).top == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(
    ("stricter", "verdict"),
    [
        ({"smallest": 0.7}, OnsetVerdict.SMALL),
        ({"peak": 1000}, OnsetVerdict.NOISE),
        ({"lasting": 40}, OnsetVerdict.SPIKE),
        ({"local": 1.05, "share": 1.0}, OnsetVerdict.GRADUAL),
        ({"stands_out": 1e6}, OnsetVerdict.COMMON),
    ],
)
def test_a_threshold_that_is_moved_rejects_the_rise(stricter: dict[str, float], verdict: OnsetVerdict) -> None:
    criteria = StageCriteria(**stricter)  # type: ignore[arg-type]
    assert rise(STEPS, CURVE, criteria).rejection(criteria) == verdict


def test_fewer_checkpoints_than_the_criteria_ask_for_are_no_evidence() -> None:
    assert rise(STEPS, CURVE).p_value < 0.01
    assert rise(STEPS, CURVE, StageCriteria(fewest=100)).p_value == 1.0


def test_the_times_are_those_of_the_logistic_in_their_intervals() -> None:
    times = rise_times(pd.DataFrame({"step": STEPS, "value": CURVE}), rise(STEPS, CURVE))
    for time, part in zip(times, PARTS, strict=True):
        assert time.step == pytest.approx(np.expm1(np.log(201) + 0.1 * np.log(part / (1 - part))), rel=0.06)
        assert time.lo <= time.step <= time.hi
        assert {time.lo, time.hi} <= set(STEPS)


@pytest.mark.parametrize("values", [[], [1.0, float("nan")]])
def test_what_is_not_finite_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="measured on finite values"):
        rise(np.arange(len(values)), np.array(values))
