"""Several transitions at once: a staircase is found from its jumps, and only where it goes one way."""

import numpy as np

from stagewise.statistics._refinement import Context
from stagewise.statistics._scan import bases
from stagewise.statistics._several import stairs


def test_the_steps_of_a_staircase_are_at_its_jumps_and_a_curve_that_goes_up_and_down_is_none() -> None:
    basis = bases(tuple(np.arange(0.0, 3000, 50)))
    at, noise = np.array([15, 30, 45]), 0.01 * np.random.default_rng(0).standard_normal(60)
    steps = (np.arange(60) >= at[:, None]).astype(float)
    one_way, turning = (
        stairs(Context(signs @ steps + noise, basis, np.empty((0, 60)), 1e-6), 3, np.array([0]))
        for signs in (np.ones(3), np.array([1.0, 1.0, -1.0]))
    )
    assert turning is None
    assert one_way is not None
    halves = sorted(basis.shapes.times()[one_way.places, 1])
    assert all(basis.u[at - 1] <= halves)
    assert all(halves <= basis.u[at])
