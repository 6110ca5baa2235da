"""The noise of curves: found whatever bends they have; how far a curve moves."""

import numpy as np
import pytest
from scipy.ndimage import median_filter

from stagewise.statistics._differences import median_noise, moved, noise

STEPS = np.arange(400)


@pytest.mark.parametrize("curve", [0.0 * STEPS, STEPS / 50, np.log1p(STEPS), 1.0 * (STEPS > 200)])
@pytest.mark.parametrize("sigma", [0.01, 0.3])
def test_the_noise_is_found_whatever_the_curve_does(curve: np.ndarray, sigma: float) -> None:
    draws = curve + sigma * np.random.default_rng(0).standard_normal((50, len(STEPS)))
    assert noise(draws).shape == (50,)
    assert noise(draws).mean() == pytest.approx(sigma, rel=0.05)


def test_fewer_than_three_checkpoints_show_no_noise() -> None:
    assert noise(np.array([1.0, 5.0])) == 0


def test_median_noise_is_the_deviation_of_running_medians_of_white_noise() -> None:
    curves = 0.1 * np.random.default_rng(0).standard_normal((5, 4, 400))
    left = median_filter(curves, size=(1, 1, 3)).std(-1)
    assert median_noise(curves).mean() == pytest.approx(left.mean(), rel=0.1)
    assert median_noise(curves).shape == (5, 4)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_move_is_between_levels_in_their_order_and_no_outlier(sign: float) -> None:
    values = np.repeat([0.2, 0.7, 0.5], 20)
    values[30] = 9.0
    move = moved(sign * values)
    assert (move.before, move.after, move.noise) == (sign * 0.2, sign * 0.7, 0.0)
