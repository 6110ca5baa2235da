"""Scores of predicted effects: what they are of a perfect prediction, of none, and of effects that no sum follows."""

import numpy as np
import pytest

from evidence.attribution.scoring import additive_ceiling, crossing, datamodelling_score, noise_ceiling

DRAWS = 400


def odd(rng: np.random.Generator) -> np.ndarray:
    """Changes of which each draw's complement has the opposite one."""
    half = rng.normal(size=DRAWS // 2)
    return np.stack([half, -half], 1).ravel()


def even(rng: np.random.Generator) -> np.ndarray:
    """Changes that a draw and its complement share."""
    return np.repeat(rng.normal(size=DRAWS // 2), 2)


def test_the_score_of_the_truth_is_one() -> None:
    true = odd(np.random.default_rng(0))
    assert datamodelling_score(3 * true, true) == pytest.approx((1, 1, 1))


def test_the_interval_of_the_score_of_noise_holds_zero_in_19_of_20() -> None:
    rng, held = np.random.default_rng(0), 0
    for _ in range(20):
        found = datamodelling_score(rng.normal(size=100), odd(rng)[:100])
        held += found.lo < 0 < found.hi
        assert found.hi - found.lo == pytest.approx(4 / np.sqrt(100), rel=0.4)
    assert held >= 17  # 16 or fewer happen once in 60 times


def test_the_additive_ceiling_is_the_correlation_of_the_best_sum() -> None:
    rng = np.random.default_rng(1)
    sums, others = odd(rng), even(rng)
    true = 2 * sums + others
    assert additive_ceiling(sums) == pytest.approx(1)
    assert additive_ceiling(true) == pytest.approx(np.corrcoef(sums, true)[0, 1], abs=0.02)
    assert additive_ceiling(others) == pytest.approx(0)


def test_the_noise_ceiling_is_the_agreement_of_two_measurements() -> None:
    rng = np.random.default_rng(2)
    true = odd(rng)
    assert noise_ceiling(true, true) == pytest.approx(1)
    assert abs(noise_ceiling(true, rng.normal(size=DRAWS))) < 0.2


@pytest.mark.parametrize(("level", "step"), [(0.0, 10.0), (0.5, 27.5), (0.7, np.inf)])
def test_a_level_is_reached_between_two_readings_or_never(level: float, step: float) -> None:
    assert crossing(range(10, 40, 10), np.array([0.0, 0.2, 0.6]), level) == pytest.approx(step)
