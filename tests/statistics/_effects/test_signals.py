"""Draws of a curve without its noise: they hold the curve, end where noise begins, and know what is sharp."""

import numpy as np
import pytest

from stagewise.statistics import Signals, signals
from stagewise.statistics._effects._settings import FINE

STEPS = np.arange(0.0, 600.0, 10.0)
U = np.log1p(STEPS)
WAVE = 2 - 1.5 / (1 + np.exp(-(U - 4.6) / 0.08)) + 0.3 * np.sin(STEPS / 150)


def _noise(seed: int, deviation: float = 0.02) -> np.ndarray:
    return deviation * np.random.default_rng(seed).standard_normal(len(STEPS))


def test_draws_hold_the_curve_without_its_noise_as_often_as_they_say() -> None:
    held = []
    for seed in range(8):
        drawn = signals(STEPS, WAVE + _noise(seed), number=400)
        lo, hi = np.quantile(drawn.draws, [0.025, 0.975], axis=0)
        held.append(np.mean((lo <= WAVE) & (hi >= WAVE)))
        assert np.sqrt(np.mean((drawn.draws.mean(0) - WAVE) ** 2)) < 0.75 * 0.02
    assert 0.88 <= np.mean(held) <= 1


def test_a_lone_outlier_is_no_part_of_the_curve() -> None:
    values = WAVE + _noise(0)
    values[40] += 1.0
    assert abs(signals(STEPS, values).draws.mean(0)[40] - WAVE[40]) < 0.1


@pytest.mark.parametrize("place", [92.0, 151.0, 203.7])
@pytest.mark.parametrize("width", [0.06, 0.1])
def test_a_sharp_change_is_followed_to_less_than_its_noise(place: float, width: float) -> None:
    sharp = 1 / (1 + np.exp(-(U - np.log1p(place)) / width))
    drawn = signals(STEPS, sharp + _noise(1), number=100)
    assert np.abs(drawn.draws.mean(0) - sharp).max() < 0.02


def test_the_same_seed_gives_the_same_draws_and_another_one_others() -> None:
    values = WAVE + _noise(2)
    first, same, other = (signals(STEPS, values, number=50, seed=seed).draws for seed in (0, 0, 1))
    assert first.shape == (50, 60)
    assert (first == same).all()
    assert (first != other).any()


def test_resamples_of_the_batch_widen_what_is_known() -> None:
    values, shifts = WAVE + _noise(3), 0.3 * np.random.default_rng(1).standard_normal((80, 1))
    wide = signals(STEPS, values, values + shifts)
    assert wide.draws.std(0).mean() == pytest.approx(0.3, rel=0.2)
    assert signals(STEPS, values).draws.std(0).mean() < 0.03


def test_a_long_curve_is_known_at_its_averages_up_to_its_last_checkpoint() -> None:
    steps = np.arange(2000.0)
    values = np.abs(steps - 1200) / 1000 + 0.05 * np.random.default_rng(0).standard_normal(2000)
    drawn = signals(steps, values, number=50)
    assert drawn.draws.shape == (50, len(drawn.steps))
    assert len(drawn.steps) <= FINE.checkpoints
    assert drawn.checkpoints[-1] == 1999
    assert drawn.steps[drawn.draws.mean(0).argmin()] == pytest.approx(1200, abs=40)


def test_a_curve_from_a_step_on_has_its_checkpoints_from_there() -> None:
    later = Signals(STEPS[::2], np.tile(WAVE[::2], (3, 1)), STEPS).since(5)
    assert (later.steps[0], later.checkpoints[0]) == (100, 100)
    assert later.draws.shape == (3, 25)


def test_draws_are_the_same_in_whichever_order_a_processor_leaves_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    values = WAVE + _noise(0)
    drawn = signals(STEPS, values, number=50)
    partition = np.argpartition

    def reversed_parts(array: np.ndarray, kth: int, axis: int) -> np.ndarray:
        places = partition(array, kth, axis=axis)
        return np.concatenate([places[:, kth::-1], places[:, kth + 1 :]], axis=1)

    monkeypatch.setattr(np, "argpartition", reversed_parts)
    assert (signals(STEPS, values, number=50).draws == drawn.draws).all()
