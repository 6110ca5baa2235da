"""A curve as arrays: parts of it, the stretches that are finer than its schedule, and how far it moves."""

import numpy as np
import pytest

from stagewise.statistics._curve import Curve, moved, thinned

STEPS = np.arange(0.0, 600.0, 10.0)


def test_a_part_of_a_curve_has_its_own_resamples() -> None:
    part = Curve(STEPS, 2 * STEPS, np.stack([STEPS, STEPS + 1])).take(slice(3, 5))
    assert part.steps.tolist() == [30, 40]
    assert part.values.tolist() == [60, 80]
    assert part.resamples is not None
    assert part.resamples.tolist() == [[30, 40], [31, 41]]


def test_a_finer_stretch_is_thinned_to_the_schedule_and_a_schedule_stays() -> None:
    dense = np.union1d(STEPS, np.arange(200.0, 240.0))
    thin = thinned(Curve(dense, dense)).steps
    assert np.diff(thin)[:-1].min() >= 5
    assert (thin[0], thin[-1]) == (0, 590)
    for steps in (STEPS, np.geomspace(1, 3000, 40)):
        assert thinned(Curve(steps, steps)).steps is steps


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_move_is_between_levels_in_their_order_and_no_outlier(sign: float) -> None:
    values = np.repeat([0.2, 0.7, 0.5], 20)
    values[30] = 9.0
    move = moved(sign * values)
    assert (move.before, move.after, move.noise) == (sign * 0.2, sign * 0.7, 0.0)
