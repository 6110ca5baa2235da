"""A transition in the unit of its curve, its share within a ratio of steps, and how far it stands out."""

import dataclasses

import numpy as np
import pytest

from evidence.calibration.onsets import alone
from stagewise.schedules import linear, logarithmic
from stagewise.statistics import DEFAULT, Curve, OnsetVerdict, StageCriteria, Transition, find_transitions
from stagewise.statistics._constants import NULL_CHECKPOINTS, NULL_CORRELATIONS, NULL_MEDIANS, NULL_TWENTIETHS
from stagewise.statistics._shapes import RAMP, Shapes
from stagewise.statistics._transition import Unit, moved, p_value, prominence, rejection, thinned

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


SCHEDULES = {
    "linear": linear(15, 901),
    "log and linear": linear(15, 901) | logarithmic(6, 15),
    "log": logarithmic(10, 10_000) | {0},
}


def curve(steps: list[int]) -> Curve:
    return Curve(np.array(steps, float), np.log1p(steps), np.random.default_rng(0).standard_normal((3, len(steps))))


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_stays_as_it_is_and_what_a_densified_stretch_adds_is_taken_out(name: str) -> None:
    steps = sorted(SCHEDULES[name])
    assert thinned(curve(steps)).steps.tolist() == steps
    dense = thinned(curve(sorted({*steps, *range(100, 300, 3)}))).steps
    assert (np.diff(dense) >= 0.5 * np.maximum.accumulate(np.diff(dense)))[:-1].all()
    assert {*dense[dense < 100], *dense[dense >= 330]} == {step for step in steps if not 100 <= step < 330}


def test_resamples_are_taken_with_their_checkpoints() -> None:
    whole = curve([0, 1, 2, 3])
    part = whole.take([0, 3])
    assert part.steps.tolist() == [0, 3]
    assert part.resamples is not None
    assert whole.resamples is not None
    assert (part.resamples == whole.resamples[:, [0, 3]]).all()


SHAPE = Shapes(np.array([5.0]), np.array([0.1]), np.array([0.0]))
DECISIONS_STEPS = np.arange(0, 2000, 10)
TIMES = SHAPE.times()[0][:, None] + np.array([[0.0, -0.1, 0.1]])
ONE = Transition(0.6, TIMES, 0.1, 0.7, 0.6, 1e-6, 0.01, 10.0, 1.0, 20, 20, 0.0, 9.0, SHAPE)


def test_a_transition_that_meets_every_criterion_is_an_onset() -> None:
    assert rejection(ONE, 1e-4, DEFAULT) is None


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"size": 0.05}, OnsetVerdict.SMALL),
        ({"net": 0.1}, OnsetVerdict.SPIKE),
        ({"preceding": 2}, OnsetVerdict.EARLY),
        ({"correlation": 0.3, "walk": 1.0}, OnsetVerdict.WANDERS),
        ({"noise": 0.5}, OnsetVerdict.NOISE),
        ({"shape": SHAPE._replace(width=np.array([2.0]))}, OnsetVerdict.GRADUAL),
        ({"prominence": 1.1}, OnsetVerdict.COMMON),
        ({"prominence": 1.1, "following": 2}, OnsetVerdict.LATE),
    ],
)
def test_what_a_transition_lacks_is_the_verdict(change: dict[str, object], verdict: OnsetVerdict) -> None:
    assert rejection(ONE._replace(**change), 1e-4, DEFAULT) == verdict  # type: ignore[arg-type]


def test_a_large_p_value_and_a_known_cause_are_against_it() -> None:
    assert rejection(ONE, 0.2, DEFAULT) == OnsetVerdict.STEADY
    assert rejection(ONE, 0.2, dataclasses.replace(StageCriteria(), false_discoveries=0.5)) is None
    assert rejection(ONE, 1e-4, DEFAULT, "a restart") == OnsetVerdict.COINCIDES


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        (np.zeros(30), OnsetVerdict.SMALL),
        (0.5 * (np.arange(30) == 12) + 0.001 * np.arange(30), OnsetVerdict.SPIKE),
        (np.linspace(0, 1, 30), OnsetVerdict.STEADY),
    ],
)
def test_what_a_curve_without_a_transition_did(values: np.ndarray, verdict: OnsetVerdict) -> None:
    assert moved(values, DEFAULT).verdict == verdict


def test_a_change_within_the_noise_is_no_change() -> None:
    noisy = np.random.default_rng(0).standard_normal(30)
    assert moved(noisy, StageCriteria(peak=10)).verdict == OnsetVerdict.NOISE


@pytest.mark.parametrize(("row", "number"), list(enumerate(NULL_CHECKPOINTS)))
def test_the_quantiles_of_the_tables_have_their_p_values(row: int, number: int) -> None:
    assert p_value(np.array(NULL_MEDIANS[row]), number, np.array(NULL_CORRELATIONS)) == pytest.approx(0.5)
    assert p_value(np.array(NULL_TWENTIETHS[row]), number, np.array(NULL_CORRELATIONS)) == pytest.approx(0.05)


def test_a_larger_statistic_has_a_smaller_p_value_without_a_floor() -> None:
    values = p_value(np.arange(0.0, 100, 5), 80, 0.4)
    assert (np.diff(values) <= 0).all()
    assert values[0] == 1
    assert 0 < values[-1] < 1e-6


def test_fewer_checkpoints_and_more_correlation_ask_for_more() -> None:
    assert p_value(20.0, 20, 0.0) > p_value(20.0, 60, 0.0)
    assert p_value(20.0, 100, 0.8) > p_value(20.0, 100, 0.0)
