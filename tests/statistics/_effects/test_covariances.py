"""Settings of process and noise: each inverse is that of its covariance, known columns are gone, priors sum to one."""

import dataclasses

import numpy as np
import pytest

from stagewise.statistics import EffectSettings
from stagewise.statistics._effects._covariances import Covariances, Setting, covariances_of

S = EffectSettings()
STEPS = tuple(np.linspace(0, 3000, 30).round().tolist())
PLAIN = covariances_of(STEPS, (1500.0,), None, None, S)
KNOWN = np.stack([np.ones(30), np.array(STEPS) >= 1500])
ERRORS = tuple(np.linspace(0.01, 0.05, 30).tolist())
GIVEN = covariances_of(STEPS, (), ERRORS, None, S)
BENT = covariances_of(STEPS, (), None, None, dataclasses.replace(S, bends=True))


def noise(of: Covariances, place: int) -> np.ndarray:
    """The covariance of the noise of a setting."""
    return np.asarray(of.noises[of.of[place]])


each_kind = pytest.mark.parametrize(
    ("of", "shared"),
    [(PLAIN, KNOWN), (GIVEN, KNOWN[:1]), (BENT, KNOWN[:1])],
    ids=["free", "given errors", "bends"],
)


def _covariance(of: Covariances, place: int) -> np.ndarray:
    """The covariance of a setting from its definition, in variances of the noise where that is free."""
    setting, t = of.settings[place], np.array(STEPS)
    scale = 1.0 if of.scaled else float(np.mean(np.square(ERRORS)))
    along = t if setting.in_steps else np.log(t + t[1])
    x = np.abs(along[:, None] - along) / np.ptp(along) / (setting.length or 1)
    matern = (1 + np.sqrt(5) * x + 5 * x**2 / 3) * np.exp(-np.sqrt(5) * x)
    return noise(of, place) + scale * setting.ratio * np.asarray(matern if of is BENT else np.exp(-0.5 * x**2))


@each_kind
def test_the_prior_of_all_settings_sums_to_one(of: Covariances, shared: np.ndarray) -> None:
    log = []
    for place, surprise in enumerate(of.surprise):
        covariance = _covariance(of, place)
        inner = shared @ np.linalg.solve(covariance, shared.T)
        log.append(0.5 * (np.linalg.slogdet(covariance)[1] + np.linalg.slogdet(inner)[1]) - surprise)
    assert np.exp(log).sum() == pytest.approx(1, abs=1e-3)


@each_kind
def test_the_inverse_is_that_of_the_covariance_free_of_what_is_known(of: Covariances, shared: np.ndarray) -> None:
    for place in range(0, len(of.settings), 7):
        precise = np.linalg.inv(_covariance(of, place))
        free = precise - precise @ shared.T @ np.linalg.solve(shared @ precise @ shared.T, shared @ precise)
        found = of.inverse(np.array([place]), np.eye(30)[None])[0]
        assert found == pytest.approx(free, abs=1e-3 * np.abs(free).max())


@each_kind
def test_products_are_those_with_the_inverse(of: Covariances, shared: np.ndarray) -> None:
    values = np.random.default_rng(0).standard_normal((2, 3, 30))
    all_products = of.all_products(values)
    for place in range(0, len(of.settings), 7):
        setting = np.full(2, place)
        expected = of.inverse(setting, values) @ values.transpose(0, 2, 1)
        near = pytest.approx(expected, abs=1e-8 * np.abs(expected).max())
        assert of.products(setting, values) == near
        assert all_products[place] == near
    assert np.abs(of.inverse(np.array([0]), shared[None])).max() < 1e-6 * np.abs(expected).max()


@each_kind
def test_columns_that_are_kept_have_their_products_and_lengths(of: Covariances, shared: np.ndarray) -> None:
    of, columns = dataclasses.replace(of, _kept={}), np.random.default_rng(1).standard_normal((4, 30))
    setting, chosen = np.array([0, 7, len(of.settings) - 1, 7]), np.array([[0, 1], [1, 3], [2, 0], [3, 2]])
    among = of.among(columns, setting, chosen)
    for place, some, products in zip(setting.tolist(), chosen, among, strict=True):
        expected = of.products(np.array([place]), columns[None])[0]
        near = 1e-8 * np.abs(expected).max()
        assert products == pytest.approx(expected[np.ix_(some, some)], abs=near)
        assert of.lengths(columns, place) == pytest.approx(np.diag(expected), abs=near)


def test_noise_has_its_level_and_fades_by_its_correlation() -> None:
    place = PLAIN.settings.index(Setting(0.6, S.louder))
    level = np.exp(S.louder * (np.linspace(0, 1, 30) - 0.5))
    assert np.diag(noise(PLAIN, place)) == pytest.approx(level**2)
    assert noise(PLAIN, place)[2, 5] == pytest.approx(0.6**3 * level[2] * level[5])


def test_what_is_given_as_errors_is_the_variance_of_the_noise() -> None:
    exact = GIVEN.settings.index(Setting(noise=0.0))
    assert np.diag(noise(GIVEN, exact)) == pytest.approx(np.square(ERRORS))


def test_all_that_effects_leave_is_noise_where_there_is_no_process() -> None:
    residual = np.random.default_rng(0).standard_normal(30)
    noise = PLAIN.noise_in(residual, PLAIN.settings.index(Setting()))
    before = np.array(STEPS) < 1500
    expected = residual - np.where(before, residual[before].mean(), residual[~before].mean())
    assert noise == pytest.approx(expected, abs=1e-8)


def test_noise_fades_by_steps_where_a_stretch_is_finer_than_what_lies_before_it() -> None:
    even, finer = np.arange(0.0, 200.0, 10.0), np.arange(102.5, 140.0, 2.5)
    t = np.union1d(even, finer)
    of = covariances_of(tuple(t.tolist()), (), None, None, S)
    covariance = noise(of, of.settings.index(Setting(0.6)))
    at = {step: k for k, step in enumerate(t.tolist())}
    assert covariance[at[100.0], at[110.0]] == pytest.approx(0.6)
    assert covariance[at[100.0], at[102.5]] == pytest.approx(0.6**0.25)
    assert covariance[at[150.0], at[170.0]] == pytest.approx(0.6**2)
    log = covariances_of(tuple(np.geomspace(1, 1000, 12).tolist()), (), None, None, S)
    assert noise(log, log.settings.index(Setting(0.6)))[0, 4] == pytest.approx(0.6**4)


def test_a_lone_gap_makes_no_later_stretch_finer() -> None:
    t = np.delete(np.arange(0.0, 300.0, 10.0), np.arange(8, 14))
    of = covariances_of(tuple(t.tolist()), (), None, None, S)
    covariance = noise(of, of.settings.index(Setting(0.6)))
    assert covariance[10, 12] == pytest.approx(0.6**2)
