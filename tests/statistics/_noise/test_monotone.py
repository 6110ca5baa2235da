"""Noise about a curve that only rises: its variance near a place, more where neighbours are alike."""

import numpy as np
import pytest

from stagewise.statistics._noise.differences import monotone
from stagewise.statistics._noise.monotone import variance_near


def test_white_noise_about_a_step_has_its_variance() -> None:
    values = np.repeat([0.0, 1.0], 200) + 0.1 * np.random.default_rng(0).standard_normal(400)
    assert variance_near(values, monotone(values), 200) == pytest.approx(0.01, rel=0.6)


def test_noise_that_lasts_counts_for_more() -> None:
    g = np.random.default_rng(1).standard_normal(400)
    slow = np.convolve(g, np.ones(4) / 2, "same")
    flat = np.zeros(400)
    assert variance_near(0.1 * slow, flat, 200) > 2 * variance_near(0.1 * g, flat, 200)
