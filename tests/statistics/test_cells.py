"""Cells around a shape: of every family, within the run, and as large together when they are divided."""

import numpy as np
import pytest

from stagewise.statistics._cells import ABRUPT, around
from stagewise.statistics._constants import AFTER, BEFORE, WIDEST_IN_STEPS
from stagewise.statistics._shapes import IN_STEPS, RAMP, RAMP_IN_STEPS, Shapes

U = np.log1p(np.geomspace(1, 3000, 50))
SHAPE = Shapes(np.array([np.log1p(200.0)]), np.array([0.3]), np.array([0.0]))


@pytest.mark.parametrize("tail", [0.0, RAMP, IN_STEPS, RAMP_IN_STEPS, 2.0])
@pytest.mark.parametrize("width", [1e-4, 0.1, WIDEST_IN_STEPS])
def test_shapes_around_one_are_of_all_families_and_have_their_middles_within_the_run(tail: float, width: float) -> None:
    cells = around(Shapes(SHAPE.middle, np.array([width]), np.array([tail])), U)
    halves = cells.shapes.times()[:, 1]
    assert halves.min() >= U[BEFORE - 1]
    assert halves.max() <= U[-AFTER]
    assert set(cells.tail) == {0.0, RAMP, IN_STEPS, RAMP_IN_STEPS, ABRUPT}
    assert np.isfinite(cells.area).all()


def test_the_quarters_of_cells_are_as_large_together_and_lie_within_them() -> None:
    cells = around(SHAPE, U)
    quarters = cells.divided()
    assert np.exp(quarters.area).sum() == pytest.approx(np.exp(cells.area).sum())
    for whole, middle, side in (
        (cells.place, quarters.place, cells.length),
        (cells.scale, quarters.scale, cells.height),
    ):
        assert np.abs(middle.reshape(4, -1) - whole) == pytest.approx(np.tile(side / 4, (4, 1)))
    assert quarters.tail.tolist() == np.tile(cells.tail, 4).tolist()
