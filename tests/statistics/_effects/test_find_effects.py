"""Laws of the model of a curve: known changes are found, smooth curves have none, and what is given is used."""

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from stagewise.statistics import _effects
from stagewise.statistics._effects import binomial_errors, find_transitions
from stagewise.statistics._effects._fits import Problem
from stagewise.statistics._effects._selection import Selection, selected

STEPS = np.linspace(0, 3000, 60).round()
U = np.log1p(STEPS)


def noise(seed: int, number: int = 60, deviation: float = 0.03) -> np.ndarray:
    return deviation * np.random.default_rng(seed).standard_normal(number)


def rise(steps: np.ndarray, at: float, width: float = 0.1) -> np.ndarray:
    return np.asarray(0.5 * (1 + np.tanh((np.log1p(steps) - np.log1p(at)) / (2 * width))))


def test_a_rise_is_found_with_its_size_and_its_time_in_the_interval() -> None:
    curves = np.array([0.1 + 0.6 * rise(STEPS, at) + noise(i) for i, at in enumerate((700, 1100, 1500, 1900))])
    models = find_transitions(STEPS, curves)
    assert [len(model.transitions) for model in models] == [1, 1, 1, 1]
    for model, at in zip(models, (700, 1100, 1500, 1900), strict=True):
        (effect,) = model.transitions
        assert effect.size == pytest.approx(0.6, abs=0.1)
        assert effect.times[1, 1] <= np.log1p(at) <= effect.times[1, 2]


@pytest.mark.parametrize(
    "curve",
    [
        0.1 + 0 * STEPS,
        0.1 + 0.7 * (STEPS / 3000) ** 0.5,
        0.9 * np.exp(-STEPS / 400),
        2 * (1 + STEPS / 30) ** -0.5,
        0.4 + 0.1 * np.sin(2 * np.pi * STEPS / 3000),
        1 + 0.5 * np.cos(np.pi * STEPS / 3000),
    ],
    ids=["flat", "power growth", "exponential", "power law", "slow wave", "cosine"],
)
def test_a_smooth_curve_has_no_change(curve: np.ndarray) -> None:
    models = find_transitions(STEPS, np.array([curve + noise(seed) for seed in range(4)]))
    assert [len(model.transitions) for model in models] == [0, 0, 0, 0]


def test_a_random_walk_has_no_change() -> None:
    walks = np.array([noise(seed).cumsum() for seed in range(8)])
    assert sum(len(model.transitions) > 0 for model in find_transitions(STEPS, walks)) <= 1


@pytest.mark.parametrize("width", [1, 2, 3])
def test_an_excursion_of_few_checkpoints_is_no_change(width: int) -> None:
    curve = 0.3 + noise(1, deviation=0.02)
    curve[30 : 30 + width] += 0.4
    assert find_transitions(STEPS, curve[None])[0].transitions == ()


def test_the_steps_of_a_staircase_are_each_found() -> None:
    places = (500.0, 1100.0, 1700.0, 2300.0)
    curve = 0.6 * np.sum([rise(STEPS, at, 0.04) for at in places], axis=0) + noise(2)
    (model,) = find_transitions(STEPS, curve[None])
    assert len(model.transitions) == 4
    for effect, at in zip(model.transitions, places, strict=True):
        assert effect.times[1, 1] <= np.log1p(at) <= effect.times[1, 2]


def test_the_steps_of_a_staircase_are_found_on_a_logarithm_of_its_values_too() -> None:
    steps, draw = np.linspace(0, 3000, 120).round(), np.random.default_rng(11)
    places = (520.0, 1140.0, 1830.0, 2440.0)
    stairs = np.sum([rise(steps, at, 0.04) for at in places], axis=0) + draw.normal(0, 0.05, (8, 120))
    found = [len(model.transitions) >= 4 for model in find_transitions(steps, np.log1p(stairs))]
    assert sum(found) >= 7


def test_a_jump_with_slow_growth_behind_it_up_to_the_next_jump_is_half_way_at_the_jump() -> None:
    steps = np.linspace(0, 4000, 160).round()
    curve = 0.38 * rise(steps, 61, 0.14) + 0.2 * steps / 1300 * (steps < 1370) + 0.5 * (steps >= 1370)
    (first, second) = find_transitions(steps, (curve + noise(14, 160, 0.003))[None])[0].transitions
    assert np.expm1(first.times[1, 0]) < 150
    assert np.expm1(first.times[2, 0]) < np.expm1(second.times[1, 0]) == pytest.approx(1365, abs=30)


def test_a_rise_and_a_fall_on_a_power_law_are_both_found() -> None:
    curve = 2 * (1 + STEPS / 20) ** -0.5 + 0.6 * rise(STEPS, 800) - 0.55 * rise(STEPS, 2000) + noise(3)
    assert [effect.size > 0 for effect in find_transitions(STEPS, curve[None])[0].transitions] == [True, False]


def test_a_change_within_one_gap_has_the_gap_as_its_interval() -> None:
    curve = np.where(np.arange(60) > 24, 0.8, 0.2) + noise(4)
    (effect,) = find_transitions(STEPS, curve[None])[0].transitions
    assert effect.within_gap
    assert np.expm1(effect.times[:, 1:]).round(6).tolist() == [[STEPS[24], STEPS[25]]] * 3


def test_given_errors_tell_a_change_from_noise() -> None:
    values = np.array([0.30, 0.31, 0.29, 0.30, 0.36, 0.35, 0.36, 0.35])
    steps = np.arange(8) * 1000.0
    certain, uncertain = (find_transitions(steps, values[None], errors=np.full(8, se))[0] for se in (0.005, 0.1))
    assert len(certain.transitions) == 1
    assert uncertain.transitions == ()
    assert certain.transitions[0].times[1, 1:] == pytest.approx(np.log1p([3000, 4000]))


@pytest.mark.parametrize(("before", "fewest"), [(3000, 17), (0, 14)], ids=["one gap", "first gap"])
def test_a_change_of_three_given_errors_is_found_and_none_where_there_is_none(before: int, fewest: int) -> None:
    steps, draw, answers = np.arange(14) * 500.0, np.random.default_rng(8), 500
    # Of the difference between two values.
    error = np.sqrt(2 * 0.3 * 0.7 / answers)
    level = 0.3 + 3 * error * (steps > before) * np.repeat([[1], [0]], 20, axis=0)
    models = find_transitions(steps, draw.binomial(answers, level) / answers, counts=answers)
    assert sum(len(model.transitions) > 0 for model in models[:20]) >= fewest
    assert sum(len(model.transitions) > 0 for model in models[20:]) <= 1


def test_errors_far_below_what_the_curve_does_between_checkpoints_make_no_change_of_noise() -> None:
    steps, curves = np.arange(40) * 500.0, 0.5 + 0.03 * np.random.default_rng(5).standard_normal((8, 40))
    models = find_transitions(steps, curves, errors=np.repeat([[0.003], [0.001]], 4, axis=0))
    assert [model.transitions for model in models] == [()] * 8
    (jump,) = find_transitions(steps, curves[:1] + 0.3 * (steps > 9000), errors=np.full(40, 0.003))
    assert [one.within_gap for one in jump.transitions] == [True]


def test_counts_are_the_binomial_errors_of_shares() -> None:
    steps, answers = np.arange(14) * 500.0, 500
    shares = np.random.default_rng(5).binomial(answers, np.where(steps > 3000, 0.6, 0.3)) / answers
    errors = binomial_errors(shares, answers)
    (by_counts,) = find_transitions(steps, shares[None], counts=answers)
    (by_errors,) = find_transitions(steps, shares[None], errors)
    assert [one.bayes for one in by_counts.transitions] == [one.bayes for one in by_errors.transitions]
    assert len(by_counts.transitions) == 1
    assert errors == pytest.approx(np.sqrt(shares * (1 - shares) / answers), rel=0.05)


def test_a_share_that_does_not_change_beyond_its_counts_has_no_change() -> None:
    steps, draw = np.arange(22) * 500.0, np.random.default_rng(6)
    curves = draw.binomial(100, 0.3, (12, 22)) / 100
    assert sum(len(model.transitions) > 0 for model in find_transitions(steps, curves, counts=100)) <= 1


def test_a_change_at_a_known_cause_is_none_of_the_curve() -> None:
    curve = 1 + 2 * (1 + STEPS / 30) ** -0.5 - 0.15 * (STEPS >= 1800) + noise(7, deviation=0.01)
    unknown, known = find_transitions(STEPS, curve[None]), find_transitions(STEPS, curve[None], known=[1800.0])
    assert len(unknown[0].transitions) == 1
    assert known[0].transitions == ()


@pytest.mark.parametrize(("factor", "offset"), [(1e-6, 0.0), (1e6, -3e6), (-1.0, 5.0)])
def test_the_unit_of_the_values_changes_nothing_but_sizes(factor: float, offset: float) -> None:
    curve = 0.1 + 0.6 * rise(STEPS, 1200) + noise(8)
    (before,), (after,) = (
        find_transitions(STEPS, each[None])[0].transitions for each in (curve, factor * curve + offset)
    )
    assert after.size == pytest.approx(factor * before.size, rel=1e-3)
    assert after.times == pytest.approx(before.times, abs=1e-3)


@pytest.mark.parametrize("chosen", [slice(0, 40), slice(None, None, 2), slice(10, None)], ids=["half", "thin", "late"])
def test_a_part_of_a_run_has_the_same_change(chosen: slice) -> None:
    curve = 0.1 + 0.6 * rise(STEPS, 1200) + noise(9)
    whole, part = (find_transitions(STEPS[each], curve[None, each])[0].transitions for each in (slice(None), chosen))
    assert len(whole) == len(part) == 1
    assert part[0].times[1, 1] <= whole[0].times[1, 2]
    assert whole[0].times[1, 1] <= part[0].times[1, 2]


def test_no_size_and_no_visible_size_is_beyond_the_span() -> None:
    steps, values = np.arange(8) * 1000.0, np.array([0.0, 0.6, 0.1, 0.5, 0.9, 0.2, 0.7, 0.3])
    (model,) = find_transitions(steps, values[None], counts=2, span=1.0)
    assert model.transitions == ()
    assert model.visible is None or model.visible <= 1


def test_a_visible_size_is_found_and_a_third_of_it_is_not() -> None:
    (model,) = find_transitions(STEPS, noise(10)[None])
    assert model.visible is not None
    jump = (STEPS > 1500).astype(float)
    larger, smaller = (
        find_transitions(STEPS, (part * model.visible * jump + noise(10))[None])[0] for part in (2, 1 / 3)
    )
    assert len(larger.transitions) == 1
    assert smaller.transitions == ()


def test_curves_are_judged_alike_alone_and_together() -> None:
    curves = np.array([0.1 + 0.6 * rise(STEPS, at) + noise(i) for i, at in enumerate((700, 1900))])
    together, alone = find_transitions(STEPS, curves), [find_transitions(STEPS, curve[None])[0] for curve in curves]
    for one, other in zip(together, alone, strict=True):
        assert [e.size for e in one.transitions] == pytest.approx([e.size for e in other.transitions], rel=1e-3)


def test_a_long_log_is_averaged_first() -> None:
    steps = np.arange(100_000)
    values = 2 + 3 * (1 + steps / 1000) ** -0.4 - 0.2 * (steps > 30_000) + noise(11, 100_000, 0.05)
    (effect,) = find_transitions(steps, values[None])[0].transitions
    assert effect.size == pytest.approx(-0.2, abs=0.02)
    assert np.expm1(effect.times[1, 1]) <= 30_000 <= np.expm1(effect.times[1, 2])


def test_a_constant_curve_has_no_change() -> None:
    assert find_transitions(STEPS, np.full((1, 60), 0.7))[0].transitions == ()


@pytest.mark.parametrize(
    ("steps", "curves", "errors", "match"),
    [
        (STEPS[::-1], np.zeros((1, 60)), None, "ascend"),
        (STEPS[:3], np.zeros((1, 3)), None, "four or more"),
        (STEPS, np.zeros((1, 59)), None, "got shape"),
        (STEPS, np.full((1, 60), np.nan), None, "finite"),
        (STEPS, np.zeros((1, 60)), np.zeros(60), "positive"),
    ],
)
def test_what_is_no_curve_is_refused(
    steps: np.ndarray, curves: np.ndarray, errors: np.ndarray | None, match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        find_transitions(steps, curves, errors)


@pytest.mark.parametrize("unit", [1e-300, 1e150, 1e300])
def test_values_whose_squares_are_no_numbers_have_the_same_change(unit: float) -> None:
    curve = 0.1 + 0.6 * rise(STEPS, 1200) + noise(8)
    (before,), (after,) = (find_transitions(STEPS, each[None])[0].transitions for each in (curve, unit * curve))
    assert after.size / unit == pytest.approx(before.size, rel=1e-3)
    assert after.times == pytest.approx(before.times, abs=1e-3)


def test_one_value_without_bounds_hides_no_change() -> None:
    curve = 0.1 + 0.6 * rise(STEPS, 1200) + noise(8)
    curve[45] = 1e300
    (one,) = find_transitions(STEPS, curve[None])[0].transitions
    assert one.times[1, 1] <= np.log1p(1200) <= one.times[1, 2]


def test_a_run_of_twice_the_length_has_the_same_change() -> None:
    steps = np.linspace(0, 6000, 120).round()
    curve = 0.1 + 0.6 * rise(steps, 1200) + noise(12, 120)
    (half,), (whole,) = (find_transitions(steps[:n], curve[None, :n])[0].transitions for n in (60, 120))
    assert half.times[1, 1] <= whole.times[1, 2]
    assert whole.times[1, 1] <= half.times[1, 2]


def test_a_change_within_the_first_gap_is_told_where_the_noise_is_known() -> None:
    curve = np.where(STEPS > 0, 0.7, 0.1) + noise(13)
    (one,) = find_transitions(STEPS, curve[None])[0].transitions
    assert one.within_gap
    assert np.expm1(one.times[1, 1:]) == pytest.approx([0, STEPS[1]])


@pytest.mark.parametrize("number", [12, 20, 30])
def test_growth_with_given_errors_is_no_change(number: int) -> None:
    steps = np.linspace(40_000 / number, 40_000, number).round()
    for grown in (0.4 * -np.expm1(-steps / 10_000), 0.4 * (steps / 40_000) ** 0.5, 0.4 * steps / 40_000):
        draws = [np.random.default_rng(seed).binomial(800, 0.25 + grown) / 800 for seed in range(4)]
        models = find_transitions(steps, np.array(draws), counts=800)
        assert sum(len(model.transitions) > 0 for model in models) <= 1


def test_two_jumps_with_given_errors_are_found_among_few_checkpoints() -> None:
    steps = np.arange(3000, 16_001, 1000)
    likely = np.where(steps < 3500, 0.25, np.where(steps < 12_500, 0.5, 0.8))
    draws = [np.random.default_rng(seed).binomial(1500, likely) / 1500 for seed in range(4)]
    for model in find_transitions(steps, np.array(draws), counts=1500):
        gaps = [np.expm1(one.times[1, 1:]).round().tolist() for one in model.transitions if one.within_gap]
        assert gaps == [[3000, 4000], [12_000, 13_000]]


def test_products_take_one_thread_and_leave_the_number_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def threads() -> set[int]:
        of_numpy = _effects.BLAS.select(user_api="blas").lib_controllers
        return {one.num_threads for one in of_numpy}

    within = list[set[int]]()

    def watched(problem: Problem) -> list[Selection]:
        within.append(threads())
        return selected(problem)

    monkeypatch.setattr("stagewise.statistics._effects.selected", watched)
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        find_transitions(STEPS, STEPS[None])
        assert (within, threads()) == ([{1}], {2})
