"""A transition in the unit of its curve, and how much of its way lies within a ratio of steps."""

import numpy as np
import pytest

from stagewise.statistics import Transition
from stagewise.statistics._shapes import Shapes
from stagewise.statistics._unit import Unit


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
