"""Runs whose every part is drawn: their truth is right, posteriors are about as wide as they say, rivals see a jump."""

import numpy as np
import pytest

from evidence.calibration.drawn import FEWEST, Drawn, draw, near, noise, transition
from evidence.calibration.ranks import ranks
from evidence.calibration.rivals import SEARCHES

STEPS = np.linspace(0, 3000, 60).round()


def test_the_times_of_a_transition_are_those_of_its_parts() -> None:
    g, steps = np.random.default_rng(0), np.arange(3001.0)
    drawn = [transition(g, steps) for _ in range(60)]
    wide = [(rise, times) for rise, times in drawn if times[2] - times[0] > 30 and times[2] < 3000]
    assert len(wide) > 20
    for rise, times in wide:
        assert np.interp(times, steps, rise) == pytest.approx([0.1, 0.5, 0.9], abs=0.02)


def test_noise_has_the_deviation_one_and_runs_have_enough_checkpoints() -> None:
    g = np.random.default_rng(1)
    deviations = [noise(g, 400).std() for _ in range(50)]
    assert np.mean(deviations) == pytest.approx(1, abs=0.15)
    runs = [draw(g, planted=False) for _ in range(50)]
    assert all(len(one.steps) >= FEWEST and (np.diff(one.steps) > 0).all() for one in runs)


def test_the_same_seed_draws_the_same_run_and_without_a_transition_it_differs_by_the_rise_alone() -> None:
    with_one, without = (draw(np.random.default_rng(2), planted=planted) for planted in (True, False))
    assert draw(np.random.default_rng(2), planted=True).curve == pytest.approx(with_one.curve)
    assert with_one.steps == pytest.approx(without.steps)
    rise = abs(np.diff(with_one.curve - without.curve))
    assert rise.sum() == pytest.approx(1, abs=0.1)


def test_a_planted_time_is_near_where_two_spacings_hold_it() -> None:
    one = Drawn(STEPS, 0 * STEPS, np.array([900.0, 1000.0, 1100.0]), 20.0)
    assert near(one, np.log1p([200.0, 1010.0])) == 1
    assert near(one, np.log1p([100.0])) is None
    assert near(one, np.array([])) is None


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", SEARCHES)
def test_each_search_sees_a_clear_jump(name: str) -> None:
    u, curve = np.log1p(STEPS), (STEPS > 1000) + 0.02 * np.random.default_rng(3).standard_normal(60)
    found = SEARCHES[name](u, curve)
    half, lo, hi = found[abs(found[:, 0] - np.log1p(1000)).argmin()]
    assert lo <= half <= hi
    assert np.expm1(half) == pytest.approx(1000, abs=60)


@pytest.mark.slow
def test_posteriors_of_the_half_are_centred_and_no_narrower_than_they_say() -> None:
    g = np.random.default_rng(4)
    found = ranks([one for one in (draw(g, planted=True) for _ in range(300)) if one.size >= 10])[:, 1]
    assert len(found) > 100
    assert found.mean() == pytest.approx(0.5, abs=0.08)
    for part in (0.5, 0.8, 0.95):
        error = np.sqrt(part * (1 - part) / len(found))
        assert (abs(found - 0.5) <= part / 2).mean() > part - 2 * error
