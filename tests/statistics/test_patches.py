"""Patches of shapes: within the run, closing in on what is likely, each point standing for its part of the patch."""

import numpy as np
import pytest

from stagewise.statistics._constants import AFTER, BEFORE, WIDEST_IN_STEPS
from stagewise.statistics._patches import ABRUPT, Patch, around, closer, points
from stagewise.statistics._shapes import IN_STEPS, RAMP, RAMP_IN_STEPS, Shapes

U = np.log1p(np.geomspace(1, 3000, 50))
SHAPE = Shapes(np.array([np.log1p(200.0)]), np.array([0.3]), np.array([0.0]))


@pytest.mark.parametrize("tail", [0.0, RAMP, IN_STEPS, RAMP_IN_STEPS, 2.0])
@pytest.mark.parametrize("width", [1e-4, 0.1, WIDEST_IN_STEPS])
def test_shapes_around_one_are_of_all_families_and_have_their_middles_within_the_run(tail: float, width: float) -> None:
    patches = around(Shapes(SHAPE.middle, np.array([width]), np.array([tail])), U)
    grid = points(patches, U)
    halves = grid.shapes.times()[:, 1]
    assert halves.min() >= U[BEFORE - 1]
    assert halves.max() <= U[-AFTER]
    assert [patch.tail for patch in patches] == [0.0, RAMP, IN_STEPS, RAMP_IN_STEPS, ABRUPT]
    assert set(grid.patch) == set(range(5))
    assert np.isfinite(grid.area).all()


def test_a_patch_closes_in_on_what_is_likely_and_on_its_neighbours() -> None:
    patches = around(SHAPE, U)
    grid = points(patches, U)
    near = (abs(grid.shapes.middle - SHAPE.middle) < 0.1) & (grid.patch == 0)
    weights = near / near.sum()
    first, *rest = closer(patches, grid, weights, 1, 0.0)
    assert first.places[0] < SHAPE.middle[0] - 0.1 < SHAPE.middle[0] + 0.1 < first.places[1]
    assert first.area < patches[0].area / 2
    assert rest == patches[1:]
    assert closer(patches, grid, weights, 1, 1e-4) == [first]


def test_a_patch_that_is_made_wider_stays_within_another() -> None:
    whole = Patch(0.0, (0.0, 4.0), (-1.0, 1.0))
    assert Patch(0.0, (1.0, 2.0), (-1.0, 0.0)).wider(2.0, whole) == Patch(0.0, (0.5, 2.5), (-1.0, 0.5))


def test_points_stand_for_equal_parts_of_their_patch_however_fine() -> None:
    patches = around(SHAPE, U)
    for finer in (1, 2, 4):
        grid = points(patches, U, finer)
        for number, patch in enumerate(patches):
            areas = np.exp(grid.area[grid.patch == number])
            assert patch.shapes(finer).number * areas == pytest.approx(patch.area)
