"""Changes of one curve that cannot be told apart are one, and each is held against what is around it."""

import numpy as np
import pytest

from stagewise.statistics import EffectSettings, Transition
from stagewise.statistics._effects._transition import prominence, told_apart

STEPS = np.linspace(0, 3000, 61)
U, S = np.log1p(STEPS), EffectSettings()


def change(size: float, at: float, width: float, before: float = 0.0) -> Transition:
    """A change that lasts so long on either side of its middle, which is known as well."""
    times = np.log1p([[at - width], [at], [at + width]]) + np.log1p([0.0, -width / 2 / at, width / 2 / at])
    return Transition(size, before, before + size, times, 9.0, 1e-4, within_gap=False, noise=0.01)


def ramp(*between: float) -> np.ndarray:
    return np.asarray(np.interp(STEPS, [0, *between, 3000], [0.0, 0.0, *np.linspace(0, 1, len(between))[1:], 1.0]))


def test_two_parts_of_one_rise_are_one_at_its_middle() -> None:
    parts = [change(0.5, 1100, 100), change(0.5, 1300, 100, 0.5)]
    (one,) = told_apart(parts, U, ramp(1000, 1400), S)
    assert one.size == 1.0
    assert (one.before, one.after) == pytest.approx((0, 1), abs=0.02)
    assert np.expm1(one.times[1, 0]) == pytest.approx(1200, rel=0.02)


def test_the_levels_of_a_rise_that_goes_on_slowly_end_where_the_next_one_begins() -> None:
    parts = [change(0.4, 200, 50), change(0.4, 1000, 900, 0.4), change(0.4, 1500, 20, 0.6)]
    fitted = np.interp(STEPS, [0, 150, 250, 1480, 1520, 3000], [0, 0, 0.4, 0.6, 1, 1])
    first, second = told_apart(parts, U, fitted, S)
    assert second is parts[2]
    assert first.after == pytest.approx(0.6, abs=0.03)
    assert np.expm1(first.times[1:, 0]) == pytest.approx([215, 1100], rel=0.15)


def test_parts_of_a_rise_that_only_grows_faster_are_one() -> None:
    parts = [change(0.2, 1000, 150), change(0.8, 1300, 150, 0.2)]
    fitted = 1 / (1 + np.exp(-(STEPS - 1250) / 70))
    (one,) = told_apart(parts, U, fitted, S)
    assert np.expm1(one.times[1, 0]) == pytest.approx(1250, rel=0.02)


def test_two_rises_with_a_pause_between_them_are_two() -> None:
    parts = [change(0.5, 800, 100), change(0.5, 2000, 100, 0.5)]
    fitted = np.interp(STEPS, [0, 700, 900, 1900, 2100, 3000], [0, 0, 0.5, 0.5, 1, 1])
    assert told_apart(parts, U, fitted, S) == parts


def test_what_is_undone_at_once_is_none() -> None:
    assert told_apart([change(0.5, 1000, 200), change(-0.45, 1010, 200)], U, 0 * STEPS, S) == []


def test_a_straight_line_stands_out_nowhere_and_a_step_does() -> None:
    one = change(0.4, 1500, 300)
    assert prominence(one, U, STEPS / 3000) == pytest.approx(1.0, abs=0.01)
    assert prominence(one, U, ramp(1300, 1700)) == float("inf")
    assert prominence(one, U, STEPS / 6000 + ramp(1300, 1700) / 2) > 3


@pytest.mark.parametrize(("height", "stands_out"), [(1.0, True), (4.0, False)])
def test_a_step_stands_out_beside_one_as_fast_and_not_as_the_slow_begin_of_a_faster_one(
    height: float, stands_out: bool
) -> None:
    one, later = change(1.0, 1000, 100), change(height, 1200, 100, 1.0)
    fitted = np.interp(STEPS, [0, 900, 1100, 1100, 1300, 3000], [0, 0, 1, 1, 1 + height, 1 + height])
    near = (0.0, float(later.times[0, 0]))
    assert prominence(one, U, fitted) < 1.3
    assert (prominence(one, U, fitted, near, S.nearly) > 1.3) is stands_out
