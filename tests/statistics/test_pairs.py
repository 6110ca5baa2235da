"""Backgrounds of two smooth columns: what they explain has no onset, and what they do not explain keeps its own."""

import itertools

import numpy as np
import pytest

from evidence.calibration.cases import LAST, checkpoints, logistic
from stagewise.statistics import DEFAULT, find_transitions
from stagewise.statistics._transition import rejection

STEPS = checkpoints("log", 60)
PART = STEPS / LAST
RISES = {"a line": PART, "a root": PART**0.5, "a logarithm": np.log1p(STEPS) / np.log1p(LAST)}


def onsets(curve: np.ndarray, repetitions: int) -> list[int]:
    """Return how many onsets a curve has with each draw of noise."""
    noise = 0.02 * np.random.default_rng(0).standard_normal((repetitions, len(STEPS)))
    return [
        sum(rejection(one, one.p_value, DEFAULT) is None for one in found.transitions)
        for found in find_transitions(STEPS, curve + noise)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1])
def test_a_fast_fall_and_a_slow_rise_are_no_onset(sign: int) -> None:
    falls = [1.5 * np.exp(-STEPS / scale) for scale in (15, 50)]
    counts = [onsets(sign * (fall + 0.6 * RISES[rise]), 4) for fall, rise in itertools.product(falls, RISES)]
    assert np.mean(counts) <= 0.05


def test_two_exponential_approaches_are_no_onset() -> None:
    counts = [onsets(0.8 - 0.4 * np.exp(-STEPS / fast) - 0.3 * np.exp(-STEPS / 900), 8) for fast in (20, 40, 80)]
    assert np.mean(counts) <= 0.05


@pytest.mark.parametrize("size", [0.6, pytest.param(-0.6, marks=pytest.mark.slow)])
def test_an_onset_upon_a_fall_and_a_rise_is_found_alone(size: float) -> None:
    smooth = 1.5 * np.exp(-STEPS / 50) + 0.6 * RISES["a line"]
    assert onsets(smooth + size * logistic(STEPS, 700, 0.08), 3) == [1] * 3


def test_a_wide_onset_is_none_of_two_columns() -> None:
    assert onsets(0.1 + 0.6 * logistic(STEPS, 200, 0.3), 8) == [1] * 8
