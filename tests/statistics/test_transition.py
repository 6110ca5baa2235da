"""A transition in the unit of its curve, its share within a ratio of steps, and how far it stands out."""

import numpy as np
import pytest

from calibration.onsets import alone
from stagewise.statistics import Transition, find_transitions
from stagewise.statistics._curve import Unit
from stagewise.statistics._shapes import RAMP, Shapes
from stagewise.statistics._transition import prominence

STEPS = np.linspace(0, 3000, 60)
U = np.log1p(STEPS)


def transition(shape: Shapes) -> Transition:
    return Transition(
        size=0.5, times=np.zeros((3, 3)), before=-0.25, after=0.25, change=0.5, p_value=5, noise=0.01, prominence=5,
        net=5, preceding=5, following=5, correlation=5, walk=5, shape=shape,
    )  # fmt: skip


def test_sizes_and_levels_are_those_of_the_curve() -> None:
    one = transition(Shapes(*np.array([[5.0], [0.1], [0.0]]))).measured(Unit(exponent=4, centre=2.0))
    assert (one.size, one.change, one.noise) == (8, 8, 0.16)
    assert (one.before, one.after) == (28, 36)
    assert one.p_value == one.walk == 5


@pytest.mark.parametrize(("ratio", "share"), [(10.0, 1.0), (2.0, np.log(2) / np.log(10))])
def test_a_ramp_over_a_decade_has_its_share_within_a_ratio(ratio: float, share: float) -> None:
    ramp = transition(Shapes(np.array([5.0]), np.array([np.log(10) / 2]), np.array([-1.0])))
    assert ramp.share(ratio) == pytest.approx(share, abs=0.01)


def test_a_ramp_on_a_slope_stands_out_by_the_ratio_of_speeds() -> None:
    middle, half = np.log1p(1000.0), 0.1
    ramp = Shapes(np.array([middle]), np.array([half]), np.array([RAMP]))
    slope, spacing = 1e-4, STEPS[1]
    fastest = slope + 0.6 / (2 * half) / np.exp(middle - 0.8 * half)
    around = slope + 0.1 * 0.6 / (2 * spacing)  # a tenth of the way lies before t10, another one after t90
    assert prominence(U, slope * STEPS, 0.6, ramp) == pytest.approx(fastest / around, rel=0.05)


def logistic(middle: float, width: float) -> Shapes:
    return Shapes(np.array([np.log1p(middle)]), np.array([width]), np.array([0.0]))


def test_pieces_of_one_way_are_one_and_a_rise_after_a_dip_is_its_own() -> None:
    first, second, dip = logistic(250.0, 0.55), logistic(1270.0, 0.1), logistic(1000.0, 0.3)
    earlier = 1.3 * first.at(U)[0]
    assert prominence(U, earlier - 1.2 * dip.at(U)[0], 1.5, second, [first]) > 4
    line = np.minimum(STEPS / 2000, 1.0)
    upper = Shapes(np.array([np.log1p(1500.0)]), np.array([0.35]), np.array([RAMP]))
    lower = Shapes(np.array([np.log1p(700.0)]), np.array([0.6]), np.array([RAMP]))
    assert prominence(U, line - 0.5 * upper.at(U)[0], 0.5, upper, [lower]) < 1.5


@pytest.mark.each_value
@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("at", [9, 25, 40])
def test_a_step_between_two_checkpoints_stands_out_and_is_held_by_them(noise: float, at: int) -> None:
    curve = 0.1 + 0.6 * (np.arange(len(STEPS)) >= at) + noise * np.random.default_rng(at).standard_normal(len(STEPS))
    (found,) = find_transitions(STEPS, curve[None])
    (one,) = found.transitions
    assert one.prominence > 10
    _, lo, hi = np.expm1(one.times[1])
    assert lo <= STEPS[at]
    assert hi >= STEPS[at - 1]


@pytest.mark.parametrize("number", [10, pytest.param(60, marks=pytest.mark.slow)])
def test_growth_that_is_fastest_at_the_end_of_the_run_is_no_onset(number: int) -> None:
    draws = np.random.default_rng(2).standard_normal((number, len(STEPS)))
    curves = 0.1 + 0.6 * np.expm1(4 * STEPS / STEPS[-1]) / np.expm1(4) + 0.02 * draws
    assert sum(len(onsets) > 0 for onsets in alone(STEPS, curves)) <= 0.05 * number
