"""Why a transition counts as an onset, or not, and what a curve without one did."""

import dataclasses

import numpy as np
import pytest

from stagewise.statistics import DEFAULT, OnsetVerdict, StageCriteria, Transition
from stagewise.statistics._decisions import moved, rejection
from stagewise.statistics._shapes import Shapes

SHAPE = Shapes(np.array([5.0]), np.array([0.1]), np.array([0.0]))
STEPS = np.arange(0, 2000, 10)
TIMES = SHAPE.times()[0][:, None] + np.array([[0.0, -0.1, 0.1]])
ONE = Transition(0.6, TIMES, 0.1, 0.7, 0.6, 1e-6, 0.01, 10.0, 1.0, 20, 20, 0.0, 9.0, SHAPE)


def test_a_transition_that_meets_every_criterion_is_an_onset() -> None:
    assert rejection(ONE, 1e-4, DEFAULT) is None


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"size": 0.05}, OnsetVerdict.SMALL),
        ({"net": 0.1}, OnsetVerdict.SPIKE),
        ({"preceding": 2}, OnsetVerdict.EARLY),
        ({"correlation": 0.3, "walk": 1.0}, OnsetVerdict.WANDERS),
        ({"noise": 0.5}, OnsetVerdict.NOISE),
        ({"shape": SHAPE._replace(width=np.array([2.0]))}, OnsetVerdict.GRADUAL),
        ({"prominence": 1.1}, OnsetVerdict.COMMON),
        ({"prominence": 1.1, "following": 2}, OnsetVerdict.LATE),
    ],
)
def test_what_a_transition_lacks_is_the_verdict(change: dict[str, object], verdict: OnsetVerdict) -> None:
    assert rejection(ONE._replace(**change), 1e-4, DEFAULT) == verdict  # type: ignore[arg-type]


def test_a_large_p_value_and_a_known_cause_are_against_it() -> None:
    assert rejection(ONE, 0.2, DEFAULT) == OnsetVerdict.STEADY
    assert rejection(ONE, 0.2, dataclasses.replace(StageCriteria(), false_discoveries=0.5)) is None
    assert rejection(ONE, 1e-4, DEFAULT, "a restart") == OnsetVerdict.COINCIDES


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        (np.zeros(30), OnsetVerdict.SMALL),
        (0.5 * (np.arange(30) == 12) + 0.001 * np.arange(30), OnsetVerdict.SPIKE),
        (np.linspace(0, 1, 30), OnsetVerdict.STEADY),
    ],
)
def test_what_a_curve_without_a_transition_did(values: np.ndarray, verdict: OnsetVerdict) -> None:
    assert moved(values, DEFAULT).verdict == verdict


def test_a_change_within_the_noise_is_no_change() -> None:
    noisy = np.random.default_rng(0).standard_normal(30)
    assert moved(noisy, StageCriteria(peak=10)).verdict == OnsetVerdict.NOISE
