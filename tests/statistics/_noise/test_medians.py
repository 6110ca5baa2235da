"""Noise in running medians of many curves: as small as the medians leave it."""

import numpy as np
import pytest
from scipy.ndimage import median_filter

from stagewise.statistics._noise.medians import median_noise


def test_it_is_the_variance_of_running_medians_of_white_noise() -> None:
    curves = 0.1 * np.random.default_rng(0).standard_normal((400, 5, 4))
    left = median_filter(curves, size=(3, 1, 1)).var(0)
    assert median_noise(curves).mean() == pytest.approx(left.mean(), rel=0.15)
    assert median_noise(curves).shape == (5, 4)
