"""Noise about a curve: whitened, told apart by its likelihood, cleared of outliers."""

from collections.abc import Callable

import numpy as np
import pytest

from stagewise.statistics import Noise
from stagewise.statistics._noise.differences import correlated_noise
from stagewise.statistics._noise.residual import KINDS, Window, likelihoods, log_likelihood, without_outliers

GENERATOR = np.random.default_rng(0)


def test_whitened_noise_has_no_correlation_and_one_level() -> None:
    draws = correlated_noise(np.random.default_rng(1), 1.0, 0.7, (200, 100)) * np.exp(2 * np.linspace(-0.5, 0.5, 100))
    white = Noise(0.7, 2.0).whitened(draws)
    assert np.corrcoef(white[:, 1:].ravel(), white[:, :-1].ravel())[0, 1] == pytest.approx(0, abs=0.03)
    assert white[:, :50].std() == pytest.approx(white[:, 50:].std(), rel=0.05)


@pytest.mark.parametrize("rate", [0.0, 0.55, 0.94])
def test_the_likelihood_finds_the_correlation(rate: float) -> None:
    draws = correlated_noise(np.random.default_rng(2), 1.0, rate, (20, 400))
    best = [KINDS[kind].correlation for kind in likelihoods(draws, np.zeros(20)).argmax(0)]
    assert np.mean(best) == pytest.approx(rate, abs=0.08)


def test_the_likelihood_is_that_of_a_normal_distribution() -> None:
    kind, n = Noise(0.5, 1.2), 6
    deviation = np.exp(1.2 * np.linspace(-0.5, 0.5, n))
    covariance = 0.5 ** np.abs(np.subtract.outer(np.arange(n), np.arange(n))) * np.outer(deviation, deviation)
    values = GENERATOR.standard_normal(n)
    squares = float(values @ np.linalg.solve(covariance, values))
    assert (kind.whitened(values) ** 2).sum() == pytest.approx(squares)
    expected = -0.5 * n * np.log(squares / n) - 0.5 * np.linalg.slogdet(covariance)[1]
    assert float(log_likelihood(np.asarray(squares), n, 0.5)) == pytest.approx(expected)


@pytest.mark.parametrize(("start", "stop"), [(0, 20), (25, 35), (45, 60)])
def test_the_likelihood_finds_a_window_of_raised_noise_and_none_in_white_noise(start: int, stop: int) -> None:
    draws = np.random.default_rng(4).standard_normal((20, 60))
    inside = (np.arange(60) >= start) & (np.arange(60) < stop)
    quiet, raised = (likelihoods(rows, np.zeros(20)).argmax(0) for rows in (draws, draws * np.where(inside, 8, 1)))
    assert np.mean([KINDS[kind].window is None for kind in quiet]) >= 0.95
    levels = [[KINDS[kind].level(float(checkpoint), 60) for checkpoint in range(60)] for kind in raised]
    ratio = [np.mean(np.array(row)[inside]) / np.mean(np.array(row)[~inside]) for row in levels]
    assert np.median(ratio) == pytest.approx(8, rel=0.35)


def test_a_window_holds_four_checkpoints_at_least_and_leaves_the_mean_of_the_logarithms() -> None:
    for window in (Window(0.0, 1 / 12, 1.2), Window(11 / 12, 1.0, 1.2), Window(0.5, 7 / 12, 2.2)):
        levels = np.log([Noise(0.0, 0.0, window).level(float(checkpoint), 20) for checkpoint in range(20)])
        assert levels.mean() == pytest.approx(0, abs=1e-12)
        assert np.unique(levels.round(9), return_counts=True)[1].tolist() == [16, 4]
        assert np.ptp(levels) == pytest.approx(window.raised)


def test_many_outliers_near_one_another_are_noise_and_stay() -> None:
    generator = np.random.default_rng(0)
    curve = 0.3 + 0.01 * generator.standard_normal(60)
    curve[25:37] += 0.1 * generator.standard_normal(12)
    assert without_outliers(curve[None])[0].tolist() == curve.tolist()


def test_likelihoods_of_all_kinds_are_those_of_their_whitened_residuals() -> None:
    residuals, floor = GENERATOR.standard_normal((3, 50)), np.array([0.0, 0.1, 2.0])
    for kind, row in zip(KINDS, likelihoods(residuals, floor), strict=True):
        squares = (kind.whitened(residuals) ** 2).sum(-1) + floor
        assert row == pytest.approx(log_likelihood(squares, 50, kind.correlation) - kind.surprise, rel=1e-12)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_an_outlier_that_returns_is_taken_out_and_a_step_stays(width: int) -> None:
    noise = 0.01 * np.random.default_rng(3).standard_normal(60)
    step = np.where(np.arange(60) < 30, 0.1, 0.7) + noise
    spike = step + 0.5 * np.isin(np.arange(60), np.arange(45, 45 + width))
    assert without_outliers(step[None])[0] == pytest.approx(step, abs=0.06)
    assert without_outliers(spike[None])[0] == pytest.approx(step, abs=0.06)


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("at", [12, 20, 30])
def test_a_spike_on_a_steep_part_leaves_nothing(at: int, width: int) -> None:
    falling = 2 * np.exp(-np.arange(60) / 8) + 0.005 * np.random.default_rng(4).standard_normal(60)
    spike = falling + 0.8 * np.isin(np.arange(60), np.arange(at, at + width))
    assert without_outliers(spike[None])[0] == pytest.approx(falling, abs=0.06)


def test_levels_of_noise_average_to_one_in_the_logarithm_and_grow() -> None:
    levels = [Noise(0.0, 2.4).level(checkpoint, 101) for checkpoint in (0.0, 50.0, 100.0)]
    assert np.log(levels) == pytest.approx([-1.2, 0.0, 1.2])


def test_where_most_checkpoints_are_equal_noise_at_the_others_stays() -> None:
    g = np.random.default_rng(0)
    risen = np.where(np.arange(60) < 40, 0.0, g.binomial(50, 0.7, 60) / 50)
    cleaned = without_outliers(risen[None])[0]
    assert (cleaned != risen).sum() <= 2
    assert cleaned[40:].std() == pytest.approx(risen[40:].std(), rel=0.15)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_spike_on_a_constant_is_taken_out(length: int) -> None:
    spike = np.full(60, 0.3)
    spike[20 : 20 + length] = 0.9
    assert without_outliers(spike[None])[0].tolist() == [0.3] * 60


@pytest.mark.parametrize("early", [0.03, 0.08])
@pytest.mark.parametrize("shape", [lambda t: (t / 3000) ** 1.2, lambda t: -t / 3000, lambda t: t**2 / 9e6])
def test_growth_that_is_steepest_at_the_end_of_a_log_spaced_run_stays(
    shape: Callable[[np.ndarray], np.ndarray], early: float
) -> None:
    steps = np.concatenate([[0.0], np.geomspace(1, 3000, 59)])
    noise = np.geomspace(early, 0.005, 60) * np.random.default_rng(0).standard_normal((20, 60))
    curves = shape(steps) + noise
    assert without_outliers(curves)[:, -2:].tolist() == curves[:, -2:].tolist()


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("size", [-0.5, 0.5])
def test_one_or_two_far_values_at_the_end_of_a_steady_curve_have_its_level(number: int, size: float) -> None:
    curve = 0.3 + 0.02 * np.random.default_rng(0).standard_normal(60)
    curve[-number:] += size
    cleaned = without_outliers(curve[None])[0]
    assert np.abs(cleaned[-number:] - 0.3).max() < 0.1
    assert cleaned[:-number].tolist() == curve[:-number].tolist()
    curve[-3] += size
    assert without_outliers(curve[None])[0, -3:].tolist() == curve[-3:].tolist()
