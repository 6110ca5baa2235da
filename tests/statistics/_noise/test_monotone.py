"""Noise about a curve that only rises: its variance near a place, more where neighbours are alike."""

import numpy as np
import pytest

from stagewise.statistics._noise.differences import monotone
from stagewise.statistics._noise.monotone import variance_near


def variance_of(draws: np.ndarray) -> float:
    return float(np.mean([variance_near(one, np.zeros(len(one)), len(one) // 2) for one in draws]))


def test_white_noise_about_a_step_has_its_variance_or_somewhat_more_where_it_is_largest() -> None:
    values = np.repeat([0.0, 1.0], 200) + 0.1 * np.random.default_rng(0).standard_normal(400)
    assert 0.01 <= variance_near(values, monotone(values), 200) <= 0.02


def test_noise_that_lasts_counts_for_more() -> None:
    white = np.random.default_rng(1).standard_normal((20, 403))
    slow = (white[:, :-3] + white[:, 1:-2] + white[:, 2:-1] + white[:, 3:]) / 2
    assert slow.var() == pytest.approx(white.var(), rel=0.1)
    assert variance_of(slow) > 2 * variance_of(white)
