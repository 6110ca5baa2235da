"""Noises: what whitens one, and back again, makes the inverse of its covariance."""

import numpy as np
import pytest

from stagewise.statistics._effects._noises import Correlated, Given

LEVEL = np.linspace(0.5, 2, 12)
CORRELATIONS = np.repeat([[0.0], [0.6], [0.99]], 12, axis=1)
CORRELATIONS[:, 0] = 0
CORRELATED = Correlated.of(CORRELATIONS, np.stack([LEVEL] * 3))
GIVEN = Given.of(LEVEL**2, np.array([0.0, 1.0, 3.0]), CORRELATIONS)
each_kind = pytest.mark.parametrize("noises", [CORRELATED, GIVEN], ids=["correlated", "beside given errors"])


@each_kind
def test_white_and_back_is_the_inverse_of_the_covariance(noises: Correlated | Given) -> None:
    values = np.random.default_rng(0).standard_normal((3, 2, 12))
    found = noises.back(np.arange(3), noises.white(np.arange(3), values))
    for i in range(3):
        assert found[i] @ noises.covariance(i) == pytest.approx(values[i], abs=1e-8)


@each_kind
def test_products_are_those_of_white_values(noises: Correlated | Given) -> None:
    values = np.random.default_rng(1).standard_normal((4, 2, 12))
    for i, products in enumerate(noises.products(values)):
        white = noises.white(np.full(4, i), values)
        assert products == pytest.approx(white @ white.transpose(0, 2, 1))


@each_kind
def test_the_log_deviations_are_half_the_log_determinants(noises: Correlated | Given) -> None:
    halves = [0.5 * np.linalg.slogdet(noises.covariance(i))[1] for i in range(3)]
    assert noises.log_deviations == pytest.approx(halves)


def test_correlated_noise_has_its_level_and_fades_by_its_correlation() -> None:
    covariance = CORRELATED.covariance(1)
    assert np.diag(covariance) == pytest.approx(LEVEL**2)
    assert covariance[2, 5] == pytest.approx(0.6**3 * LEVEL[2] * LEVEL[5])


def test_noise_of_a_finer_stretch_fades_by_the_way_between_its_checkpoints() -> None:
    within = CORRELATIONS.copy()
    within[1, 4:8] = 0.6**0.25
    covariance = Correlated.of(within, np.ones((3, 12))).covariance(1)
    assert covariance[3, 7] == pytest.approx(0.6)
    assert covariance[7, 9] == pytest.approx(0.6**2)
