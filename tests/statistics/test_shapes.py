"""Shapes of transitions and backgrounds: their times are where they have made each part of their way."""

import numpy as np
import pandas as pd
import pytest

from stagewise.findings.onsets import find_onsets
from stagewise.statistics._constants import AFTER, PARTS
from stagewise.statistics._shapes import (
    IN_STEPS,
    RAMP,
    RAMP_IN_STEPS,
    Shapes,
    alike,
    backgrounds,
    grid,
    joined,
)

TAILS = [0.0, RAMP, 1.5, IN_STEPS, RAMP_IN_STEPS]
ONE_OF_EACH = Shapes(np.full(5, 5.0), np.array([0.2, 0.3, 0.1, 0.05, 0.3]), np.array(TAILS))


@pytest.mark.parametrize("which", range(len(TAILS)))
def test_the_times_of_a_shape_are_where_it_has_made_each_part_of_its_way(which: int) -> None:
    shape = ONE_OF_EACH.take([which])
    (times,) = shape.times()
    assert shape.at(times)[0] == pytest.approx(PARTS)


def test_every_shape_rises_from_zero_to_one() -> None:
    values = ONE_OF_EACH.at(np.linspace(-20, 40, 500))
    assert (np.diff(values) >= 0).all()
    assert values[:, 0] == pytest.approx(0, abs=1e-6)
    assert values[:, -1] == pytest.approx(1, abs=1e-6)


def test_the_grid_has_checkpoints_on_either_side_of_every_middle() -> None:
    steps = tuple(np.arange(0.0, 600, 20).tolist())
    logistic = grid(steps).tail == 0
    middles = np.expm1(grid(steps).middle[logistic])
    assert middles.min() > steps[1]
    assert middles.max() < steps[-AFTER]


def test_the_grid_has_narrow_shapes_at_checkpoints_and_between_them() -> None:
    u = np.log1p(np.arange(0.0, 600, 20))
    every = grid(tuple(np.arange(0.0, 600, 20).tolist()))
    narrow = every.middle[(every.tail == 0) & (every.width < 0.2 * np.diff(u).max())]
    assert np.isin((u[5:-5], (u[5:-4] + u[4:-5])[1:] / 2), narrow).all()


def test_shapes_are_told_apart_by_two_checkpoints_or_more_and_by_what_lies_between_their_times() -> None:
    steps = np.arange(60.0) * 50
    u = np.log1p(steps)

    def logistics(*shapes: tuple[float, float]) -> Shapes:
        places, widths = np.array(shapes).T
        return Shapes(np.interp(places, np.arange(60), u), widths, np.zeros(len(shapes)))

    sharp = logistics((30, 0.01), (31.5, 0.01), (32.5, 0.01), (30, 0.5), (36, 0.5))
    assert alike(sharp, logistics((30, 0.01)), u).tolist() == [True, True, False, True, False]
    assert alike(sharp, logistics((33, 0.5)), u).tolist() == [False, True, True, True, True]


def test_shapes_are_joined_in_order() -> None:
    assert joined([ONE_OF_EACH, ONE_OF_EACH.take([0])]).tail.tolist() == [*TAILS, 0.0]


def test_backgrounds_are_smooth_monotone_and_span_zero_to_one() -> None:
    for a_decade in (2, 6):
        values = backgrounds(np.arange(0.0, 600, 20), a_decade)
        moves = np.diff(values)
        assert ((moves >= 0).all(1) | (moves <= 0).all(1)).all()
        assert (values.min(1) == 0).all()
        assert (values.max(1) == 1).all()


def test_the_backgrounds_of_a_long_run_that_starts_with_short_steps_change_as_early() -> None:
    steps = np.append(0, 2.0 ** np.arange(18))
    logarithm = np.log1p(steps) / np.log1p(steps[-1])
    assert np.abs(backgrounds(steps, 6) - logarithm).max(1).min() < 0.01


def test_a_run_that_starts_late_has_backgrounds_that_change() -> None:
    values = backgrounds(np.arange(5000.0, 20001, 250), 6)
    assert np.isfinite(values).all()
    assert np.ptp(values, axis=1) == pytest.approx(1)


def test_the_grid_of_many_checkpoints_has_no_more_places_than_that_of_some() -> None:
    sizes = [len(grid(tuple(map(float, range(n)))).middle) for n in (400, 800, 1600, 6400)]
    assert sizes[0] < sizes[1]
    assert max(sizes[2:]) <= sizes[1]


@pytest.mark.slow
def test_a_jump_between_two_of_many_checkpoints_is_found() -> None:
    steps = np.arange(2400)
    values = 0.2 + 0.6 * (steps > 1001) + 0.05 * np.random.default_rng(0).standard_normal(len(steps))
    table = pd.DataFrame({"run": "run", "step": steps, "probe": "Accuracy", "quantity": "accuracy", "value": values})
    (onset,) = find_onsets(table).to_dict("records")
    assert onset["onset"]
    assert onset["t50_lo"] <= 1001.5 <= onset["t50_hi"]
    assert 1000.5 <= onset["t50"] <= 1002.5
