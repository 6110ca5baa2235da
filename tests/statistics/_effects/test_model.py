"""What a model tells: quantiles of a posterior, levels before and after, one event told once."""

import numpy as np
import pytest

from stagewise.statistics import Transition, find_transitions
from stagewise.statistics._effects._model import _quantiles

STEPS = np.linspace(0, 3000, 60).round()


def told(curve: np.ndarray) -> tuple[Transition, ...]:
    noise = 0.02 * np.random.default_rng(1).standard_normal(len(curve))
    return find_transitions(STEPS, (curve + noise)[None])[0].transitions


def test_the_quantiles_of_one_cell_are_those_of_a_uniform_distribution() -> None:
    half, lo, hi = _quantiles(np.array([5.0]), np.array([2.0]), np.array([1.0]))
    assert (half, lo, hi) == pytest.approx((5.0, 4.05, 5.95))


def test_the_quantiles_of_a_mixture_are_those_of_draws_from_it() -> None:
    middle, cell, weight = np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.5, 2.0]), np.array([0.6, 0.3, 0.1])
    g = np.random.default_rng(0)
    of = g.choice(3, 200_000, p=weight)
    draws = middle[of] + cell[of] * (g.random(200_000) - 0.5)
    assert _quantiles(middle, cell, weight) == pytest.approx(np.quantile(draws, [0.5, 0.025, 0.975]), abs=0.02)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_levels_are_those_before_and_after(sign: float) -> None:
    (one,) = told(sign * (0.2 + 0.6 * (STEPS > 1500)))
    assert (one.before, one.after) == pytest.approx((sign * 0.2, sign * 0.8), abs=0.03)
    assert one.size == pytest.approx(sign * 0.6, abs=0.05)
    assert one.noise == pytest.approx(0.02, rel=0.4)


def test_a_curve_that_comes_back_soon_has_no_change() -> None:
    assert told(0.5 * ((STEPS > 1500) & (STEPS < 1700))) == ()


def test_a_rise_at_once_that_comes_back_slowly_is_a_change() -> None:
    first, *_ = told(0.7 * (STEPS > 600) * np.exp(-np.maximum(STEPS - 600, 0) / 1200))
    assert (first.before, first.after) == pytest.approx((0.0, 0.7), abs=0.08)
    assert first.times[1, 1:] == pytest.approx(np.log1p([559, 610]), abs=0.02)


def test_a_collapse_soon_after_a_rise_does_not_undo_it() -> None:
    (one,) = told((STEPS > 100) - 0.95 * (STEPS[5] == STEPS) - 0.9 * (STEPS[40] == STEPS))
    assert one.within_gap
    assert one.times[1, 1:] == pytest.approx(np.log1p(STEPS[1:3]))


def test_a_plateau_that_lasts_is_left_and_returned_to() -> None:
    assert [one.size > 0 for one in told(0.5 * ((STEPS > 1000) & (STEPS < 2200)))] == [True, False]
