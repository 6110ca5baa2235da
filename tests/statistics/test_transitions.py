"""Transitions of whole curves: as many as planted, in their order, with their sizes."""

import numpy as np
import pytest
from scipy.stats import norm

from evidence.calibration.cases import NOISES, SMOOTH, checkpoints, logistic
from evidence.calibration.onsets import generator
from stagewise.statistics import DEFAULT, find_transitions
from stagewise.statistics._transition import rejection
from stagewise.statistics._transitions import _stands

STEPS = np.linspace(0, 3000, 60)
U = np.log1p(STEPS)


def sigmoid(at: float, width: float = 0.08) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-(U - np.log1p(at)) / width)))


PLANTED = {
    "none": (0.0 * U, []),
    "one": (0.6 * sigmoid(900), [0.6]),
    "a fall": (-0.6 * sigmoid(900), [-0.6]),
    "up and down": (0.6 * (sigmoid(600) - sigmoid(1900)), [0.6, -0.6]),
    "on a power law": (0.6 * sigmoid(900) + 2 * (1 + STEPS / 20) ** -0.5, [0.6]),
}


@pytest.mark.parametrize("name", PLANTED)
def test_there_are_as_many_transitions_as_planted(name: str) -> None:
    curve, sizes = PLANTED[name]
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(STEPS))
    (found,) = find_transitions(STEPS, (0.1 + curve + noise)[None])
    assert [one.size for one in found.transitions] == pytest.approx(sizes, abs=0.12)
    assert (found.p_value < 0.01) == bool(sizes)
    for one in found.transitions:
        assert one.p_value < 0.01
        assert one.net == pytest.approx(1, abs=0.35)
        assert one.prominence > 2
        assert one.share(3.0) > 0.9


def test_most_steps_of_a_staircase_are_found_and_none_of_the_line_through_it() -> None:
    steps = np.linspace(0, 3000, 60).round()
    at = np.array([550.0, 1250.0, 1900.0, 2600.0])
    stairs = (0.25 / (1 + np.exp(-(steps - at[:, None]) / 60))).sum(0)
    noise = 0.005 * np.random.default_rng(4).standard_normal((4, len(steps)))
    found = [
        np.expm1([one.times[1, 0] for one in of.transitions if _stands(one)])
        for of in find_transitions(steps, stairs + noise)
    ]
    near = [np.abs(at - one).min() < 25 for each in found for one in each]
    assert all(near)
    assert 14 <= len(near) <= 16
    assert not any(_stands(one) for of in find_transitions(steps, steps / 3000 + noise) for one in of.transitions)


@pytest.mark.parametrize("number", [3, 6])
def test_every_step_of_a_staircase_is_found_once(number: int) -> None:
    steps = checkpoints("log", 60)
    places, u = np.linspace(12, 52, number).astype(int), np.log1p(steps)
    stairs = (1 / (1 + np.exp(-(u - (u[places] + u[places + 1])[:, None] / 2) / 0.05))).sum(0)
    noise = 0.05 * np.random.default_rng(number).standard_normal((4, len(steps)))
    for of in find_transitions(steps, stairs + noise):
        halves = np.array([one.times[1] for one in of.transitions if _stands(one)])
        assert len(halves) == number
        assert np.abs(halves[:, 0] - u[places]).max() < 0.15


def test_a_burst_of_noise_has_no_transition_and_a_rise_in_quiet_noise_before_it_stays() -> None:
    draws = np.random.default_rng(3).standard_normal((8, len(STEPS)))
    noise = 0.01 * draws * np.where((np.arange(60) >= 34) & (np.arange(60) < 44), 8, 1)
    flat, rises = find_transitions(STEPS, 0.3 + noise), find_transitions(STEPS, 0.6 * sigmoid(700) + noise)
    assert all(one.p_value > 0.05 for one in flat)
    assert all(len(one.transitions) == 1 for one in rises)
    halves = [np.expm1(one.transitions[0].times[1, 0]) for one in rises]
    assert halves == pytest.approx([700] * 8, abs=25)


def test_a_curve_is_decided_alike_alone_and_among_others() -> None:
    noise = 0.02 * np.random.default_rng(1).standard_normal((3, len(STEPS)))
    curves = 0.1 + np.array([0.6 * sigmoid(900), 0.1 * U, 0.5 * sigmoid(500)]) + noise
    together = find_transitions(STEPS, curves)
    for curve, of_many in zip(curves, together, strict=True):
        (alone,) = find_transitions(STEPS, curve[None])
        assert alone.p_value == pytest.approx(of_many.p_value)
        assert len(alone.transitions) == len(of_many.transitions)


def test_a_search_that_takes_away_what_it_adds_comes_to_an_end() -> None:
    steps, draw = checkpoints("lin", 150), generator("false onsets: exponential, growing, lin 150")
    curves = [SMOOTH["exponential"](draw, steps) + NOISES["growing"](draw, 150) for _ in range(36)]
    (found,) = find_transitions(steps, curves[-1][None])
    assert all(one.p_value > 0.05 for one in found.transitions)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("seed", range(3))
def test_a_staircase_of_three_is_three_transitions_though_one_alone_looks_like_a_drift(seed: int) -> None:
    steps = np.concatenate([[0], 2.0 ** np.arange(10), np.arange(1000.0, 143001, 1000)])
    stairs = 0.1 + 0.6 * np.sum([logistic(steps, at, 0.05) for at in (25_000, 60_000, 100_000)], 0)
    (found,) = find_transitions(steps, stairs[None] + 0.02 * np.random.default_rng(seed).standard_normal(len(steps)))
    assert [one.size for one in found.transitions] == pytest.approx([0.6] * 3, abs=0.15)


def test_the_noise_of_a_transition_is_that_where_it_is() -> None:
    levels = np.geomspace(0.005, 0.08, len(STEPS))
    noise = levels * np.random.default_rng(4).standard_normal(len(STEPS))
    (found,) = find_transitions(STEPS, (0.6 * sigmoid(600) + 0.6 * sigmoid(2300) + noise)[None])
    early, late = (one.noise for one in found.transitions)
    assert early < 0.03 < late


@pytest.mark.one_of(3)
@pytest.mark.parametrize("noise", [0.0, 0.001, 0.01])
def test_levels_lie_within_those_of_the_curve(noise: float) -> None:
    few = np.arange(20) * 100 + 99
    falls = np.arange(121) * 50
    draw = np.random.default_rng(0)
    for steps, curve, levels in (
        (few, 0.2 + 0.7 / (1 + np.exp(-(few - 500) / 20)), (0.2, 0.9)),
        (falls, 2 - 0.6 * np.where(falls >= 3000, 1 - np.exp(-(falls - 3000) / 200), 0), (2.0, 1.4)),
    ):
        (found,) = find_transitions(steps, (curve + noise * draw.standard_normal(len(steps)))[None])
        for one in found.transitions:
            assert min(levels) - 4 * noise - 0.02 <= min(one.before, one.after)
            assert max(one.before, one.after) <= max(levels) + 4 * noise + 0.02


def test_transitions_that_overlap_have_their_own_sizes_and_the_levels_of_the_curve() -> None:
    fine = np.linspace(0, 3000, 120)
    u = np.log1p(fine)
    parts = [0.3 / (1 + np.exp(-(u - np.log1p(900)) / 0.25)), 0.5 / (1 + np.exp(-(u - np.log1p(1000)) / 0.02))]
    curve = 0.1 + sum(parts) + 0.003 * np.random.default_rng(0).standard_normal(len(fine))
    (found,) = find_transitions(fine, curve[None])
    wide, sharp = sorted(found.transitions, key=lambda one: abs(one.size))
    early, late = np.interp(wide.times[[0, 2], 0], u, curve)
    assert wide.times[0, 0] < sharp.times[0, 0] < sharp.times[2, 0] < wide.times[2, 0]
    assert wide.change == pytest.approx(late - early, abs=0.15)
    for one, size in ((wide, 0.3), (sharp, 0.5)):
        assert one.size == pytest.approx(size, abs=0.06)
        assert one.after - one.before == pytest.approx(one.change, abs=0.06)


LAST = 3000.0
IN_STEPS = {
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "normal": lambda x: norm.cdf(x / 1.2),
    "ramp": lambda x: np.clip(0.5 + x / 4, 0, 1),
    "saturating": lambda x: -np.expm1(-(x + np.log(2)).clip(min=0)),
}
"""Transitions in the step itself, by (step - middle) / width; half of the way is made at the middle."""


@pytest.mark.one_of(2)
@pytest.mark.each_value
@pytest.mark.parametrize("name", IN_STEPS)
@pytest.mark.parametrize("number", [20, 60, 150])
@pytest.mark.parametrize("middle", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("width", [0.01, 0.03])
def test_an_exact_rise_in_the_step_is_one_onset_where_it_is(
    name: str, number: int, middle: float, width: float
) -> None:
    steps = np.linspace(0, LAST, number)
    (found,) = find_transitions(steps, 0.1 + 0.6 * IN_STEPS[name]((steps / LAST - middle) / width)[None])
    (one,) = (one for one in found.transitions if rejection(one, one.p_value, DEFAULT) is None)
    half, spacing = np.expm1(one.times[1]), LAST / (number - 1)
    assert one.size == pytest.approx(0.6, abs=0.05)
    assert abs(half[0] - middle * LAST) < 0.5 * spacing
    assert half[1] - 0.3 * spacing <= middle * LAST <= half[2] + 0.3 * spacing


@pytest.mark.parametrize(("bend", "noise"), [(4, 0.001), (5, 0.0005), (6, 0.001)])
def test_a_straight_rise_that_ends_at_the_ceiling_has_no_transition_however_small_its_noise(
    bend: int, noise: float
) -> None:
    steps = np.concatenate([np.arange(0, 400, 5), np.arange(400, 701, 25)])
    rise = 1 - bend / 75 * np.log1p(np.exp(-(steps - 75) / bend))
    draws = np.random.default_rng(6).standard_normal(len(steps)) * np.sqrt(np.clip(4 * rise * (1 - rise), 0.04, 1))
    (found,) = find_transitions(steps, (rise + noise * draws)[None])
    assert not any(map(_stands, found.transitions))


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_an_approach_that_is_cut_at_its_limit_has_no_transition(seed: int) -> None:
    steps = np.arange(0, 3001, 50)
    approach = np.minimum(1.1 * (1 - np.exp(-steps / 500)), 1)
    (found,) = find_transitions(
        steps, (approach + 0.001 * np.random.default_rng(seed).standard_normal(len(steps)))[None]
    )
    assert not any(map(_stands, found.transitions))
