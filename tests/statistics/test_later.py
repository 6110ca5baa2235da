"""What is small and late is found behind what is large and early; a smooth fall has nothing behind it."""

import numpy as np
import pytest

from stagewise.statistics import DEFAULT, find_transitions
from stagewise.statistics._transition import Found, Transition, rejection

STEPS = np.arange(0, 20_001, 200.0)
LOSS = 2.2 + 8 * (1 + STEPS / 50) ** -0.4
U = np.log1p(STEPS)


def _onsets(found: Found) -> list[Transition]:
    return [one for one in found.transitions if rejection(one, one.p_value, DEFAULT) is None]


@pytest.mark.parametrize("at", [3000, 6000])
def test_a_bump_late_in_a_loss_that_fell_by_eight_nats_is_found(at: int) -> None:
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(STEPS))
    bump = 0.3 / (1 + np.exp(-(U - np.log1p(at)) / 0.05))
    smooth, bumped = find_transitions(STEPS, np.stack([LOSS + noise, LOSS + noise - bump]))
    assert not _onsets(smooth)
    (found,) = _onsets(bumped)
    _, lo, hi = np.expm1(found.times[1])
    assert lo < at < hi
    assert -0.4 < found.size < -0.2
    assert found.preceding > np.searchsorted(STEPS, at) - 6


def test_the_rest_of_a_curve_has_its_own_resamples() -> None:
    noise = 0.01 * np.random.default_rng(1).standard_normal((20, len(STEPS)))
    curve = LOSS - 0.3 / (1 + np.exp(-(U - np.log1p(6000)) / 0.05))
    asked: list[int] = []

    def resamples(i: int) -> np.ndarray:
        asked.append(i)
        return np.asarray(curve + noise)

    (found,) = find_transitions(STEPS, (curve + noise[0])[None], resamples)
    assert len(found.transitions) == 1
    assert set(asked) == {0}


@pytest.mark.parametrize("seed", range(3))
def test_a_longer_run_does_not_move_a_jump_that_slow_growth_follows(seed: int) -> None:
    steps = np.unique(np.concatenate([[0], np.geomspace(1, 50_000, 150).round()]))
    jump = 0.5 / (1 + np.exp(-(np.log1p(steps) - np.log1p(563)) / 0.03))
    growth = 0.3 * np.log1p((steps - 563).clip(min=0) / 563) / np.log1p(50_000 / 563)
    curve = jump + growth + 0.02 * np.random.default_rng(seed).standard_normal(len(steps))
    halves = []
    for stop in np.geomspace(2500, 50_000, 10):
        (of,) = find_transitions(steps[steps <= stop], curve[None, steps <= stop])
        (one,) = _onsets(of)
        half, lo, hi = np.expm1(one.times[1])
        assert lo <= 563 <= hi
        halves.append(half)
    spacing = np.diff(steps)[np.searchsorted(steps, 563)]
    assert np.ptp(halves) <= spacing / 10
