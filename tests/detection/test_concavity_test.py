"""The test of "it never speeds up": its level on straight lines and noise, its power on steps."""

from collections.abc import Callable

import numpy as np
import pytest

from stagewise.detection.concavity_test import acceleration
from stagewise.detection.criteria import StageCriteria

LINEAR = np.arange(0, 620, 20)
LOGARITHMIC = np.unique(np.concatenate([[0], np.geomspace(1, 20_000, 40).astype(int)]))
CURVES = 400

CONCAVE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "constant": lambda steps: 0.0 * steps,
    "straight in the step": lambda steps: steps / steps[-1],
    "straight in the logarithm": np.log1p,
    "power law": lambda steps: 1 - (1 + steps / 10) ** -0.5,
    "exponential approach": lambda steps: 1 - np.exp(-steps / 200),
}


@pytest.mark.parametrize("steps", [LINEAR, LOGARITHMIC], ids=["linear", "logarithmic"])
@pytest.mark.parametrize("shape", CONCAVE)
def test_a_curve_of_diminishing_returns_is_rejected_no_more_often_than_the_level(shape: str, steps: np.ndarray) -> None:
    generator = np.random.default_rng(0)
    curves = CONCAVE[shape](steps) + 0.03 * generator.standard_normal((CURVES, len(steps)))
    rejected = np.mean([acceleration(steps, curve) < 0.05 for curve in curves])
    assert rejected < 0.05 + 3 * np.sqrt(0.05 * 0.95 / CURVES)


def test_on_a_straight_line_the_level_is_used_up() -> None:
    generator = np.random.default_rng(1)
    curves = LINEAR / 100 + 0.03 * generator.standard_normal((CURVES, len(LINEAR)))
    p_values = np.array([acceleration(LINEAR, curve) for curve in curves])
    for level in (0.05, 0.2, 0.5):
        assert np.mean(p_values < level) == pytest.approx(level, abs=3 * np.sqrt(level * (1 - level) / CURVES))


@pytest.mark.parametrize("steps", [LINEAR, LOGARITHMIC], ids=["linear", "logarithmic"])
def test_a_step_twenty_times_the_noise_is_never_missed(steps: np.ndarray) -> None:
    generator = np.random.default_rng(2)
    curves = 20.0 * (steps > 150) + generator.standard_normal((20, len(steps)))
    assert max(acceleration(steps, curve) for curve in curves) < 0.001


def test_a_fall_is_no_acceleration_upwards() -> None:
    falling = np.where(LINEAR > 300, 0.0, 1.0) + 0.01 * np.random.default_rng(3).standard_normal(len(LINEAR))
    assert acceleration(LINEAR, falling) > 0.05


def test_bends_before_the_start_do_not_count() -> None:
    steps = 1.0 * (LINEAR > 150) + 0.01 * np.random.default_rng(4).standard_normal(len(LINEAR))
    assert acceleration(LINEAR, steps) < 0.001
    assert acceleration(LINEAR, steps, start=12) > 0.05


@pytest.mark.parametrize("values", [[1.0], [1.0, 1.0], [0.5] * 9])
def test_curves_without_noise_or_without_three_windows_are_no_evidence(values: list[float]) -> None:
    assert acceleration(np.arange(len(values)), np.array(values)) == 1.0


def test_many_checkpoints_are_averaged_and_keep_level_and_power() -> None:
    steps = np.arange(0, 2000, 10)
    generator = np.random.default_rng(5)
    noise = 0.03 * generator.standard_normal((100, len(steps)))
    rejected = np.mean([acceleration(steps, np.log1p(steps) + one) < 0.05 for one in noise])
    assert rejected < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 100)
    assert max(acceleration(steps, 0.3 * (steps > 1000) + one) for one in noise[:10]) < 0.001


def test_the_smallest_p_value_is_one_over_the_null_curves() -> None:
    steps = 20.0 * (LINEAR > 150) + np.random.default_rng(6).standard_normal(len(LINEAR))
    assert acceleration(LINEAR, steps, criteria=StageCriteria(null_curves=99)) == 1 / 100
    assert acceleration(LINEAR, steps, criteria=StageCriteria(null_curves=1999)) == 1 / 2000


def test_where_fewer_checkpoints_are_compared_neighbours_are_averaged() -> None:
    steps = 20.0 * (LINEAR > 150) + np.random.default_rng(7).standard_normal(len(LINEAR))
    assert acceleration(LINEAR, steps, criteria=StageCriteria(compared=2)) == 1.0
