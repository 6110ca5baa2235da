"""Noise on a plateau: draws fade over steps as the residuals do."""

import numpy as np
import pytest

from stagewise.papers.plateau_noise import plateau_noise


def test_draws_are_as_large_and_as_correlated_as_the_residuals() -> None:
    steps, g = np.arange(0, 4000, 10.0), np.random.default_rng(0)
    residual = g.standard_normal(400)
    for i in range(1, 400):
        residual[i] = 0.8 * residual[i - 1] + 0.6 * residual[i]
    draws = plateau_noise(steps, residual, 0, np.random.default_rng(1), 300)
    assert draws.std() == pytest.approx(residual.std(), rel=0.1)
    assert (draws[:, 1:] * draws[:, :-1]).mean() / draws.var() == pytest.approx(0.8, abs=0.08)


def test_an_exact_fit_has_hardly_any_noise() -> None:
    assert np.abs(plateau_noise(np.arange(9.0), np.zeros(9), 2, np.random.default_rng(0), 20)).max() < 1e-12
