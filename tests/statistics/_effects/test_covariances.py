"""Settings of process and noise: whitened draws are white, known columns are gone, and priors sum to one."""

import numpy as np
import pytest

from stagewise.statistics import EffectSettings
from stagewise.statistics._effects._covariances import Covariances, Setting, covariances_of

S = EffectSettings()
STEPS = tuple(np.linspace(0, 3000, 30).round().tolist())
PLAIN = covariances_of(STEPS, (1500.0,), None, None, S)
ERRORS = tuple(np.linspace(0.01, 0.05, 30).tolist())
GIVEN = covariances_of(STEPS, (), ERRORS, None, S)


@pytest.mark.parametrize("of", [PLAIN, GIVEN], ids=["free", "given errors"])
def test_the_prior_of_all_settings_sums_to_one(of: Covariances) -> None:
    scale = 1.0 if of.scaled else float(np.sqrt(np.mean(np.square(ERRORS))))
    shared = np.ones((30, 1)) if not of.scaled else np.stack([np.ones(30), np.array(STEPS) >= 1500], axis=1)
    white = next(i for i, one in enumerate(of.settings) if one == Setting(noise=1.0 if of.scaled else 0.0))
    variances = np.ones(30) if of.scaled else np.square(np.array(ERRORS) / scale)
    inner = shared.T @ (shared / variances[:, None])
    half = 0.5 * np.log(variances).sum() + 0.5 * np.linalg.slogdet(inner)[1] + of.freedom * np.log(scale)
    prior = half - of.surprise[white]
    if of.scaled:
        assert prior == pytest.approx(np.log(0.4 * (1 - S.bursting) / 2 * (1 - S.smooth)), abs=1e-5)
    else:
        assert prior == pytest.approx(np.log(S.exact * (1 - S.smooth)), abs=1e-5)


@pytest.mark.parametrize("setting", [Setting(), Setting(0.6), Setting(0, S.growths[-1])])
def test_noise_of_a_setting_is_white_under_it(setting: Setting) -> None:
    i = PLAIN.settings.index(setting)
    covariance = PLAIN.noises(setting)
    whitened = PLAIN.whitening[i] @ covariance @ PLAIN.whitening[i].T
    sizes = np.linalg.eigvalsh(whitened)
    assert sizes[:2] == pytest.approx(0, abs=1e-4)
    assert sizes[2:] == pytest.approx(1, abs=1e-3)


def test_offset_and_a_known_change_are_nothing_under_any_setting() -> None:
    known = np.stack([np.ones(30), np.array(STEPS) >= 1500], axis=1)
    assert np.abs(PLAIN.whitening @ known).max() < 1e-3


def test_what_is_given_as_errors_is_the_variance_of_the_noise() -> None:
    assert np.diag(GIVEN.noises(Setting(noise=0.0))) == pytest.approx(np.square(ERRORS))


def test_all_that_effects_leave_is_noise_where_there_is_no_process() -> None:
    residual = np.random.default_rng(0).standard_normal(30)
    noise = PLAIN.noise_in(residual, PLAIN.settings.index(Setting()))
    before = np.arange(30) < 15
    expected = residual - np.where(np.array(STEPS) < 1500, residual[before].mean(), residual[~before].mean())
    assert noise == pytest.approx(expected, abs=1e-4)
