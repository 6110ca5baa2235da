"""Which cause may have begun a transition, and which may not."""

import numpy as np
import pytest

from stagewise.findings._decisions import coincidence
from stagewise.statistics import Transition
from stagewise.statistics._shapes import Shapes

SHAPE = Shapes(np.array([5.0]), np.array([0.1]), np.array([0.0]))
STEPS = np.arange(0, 2000, 10)
TIMES = SHAPE.times()[0][:, None] + np.array([[0.0, -0.1, 0.1]])
ONE = Transition(0.6, TIMES, 0.1, 0.7, 0.6, 1e-6, 0.01, 10.0, 1.0, 20, 20, 0.0, 9.0, SHAPE)


def test_a_cause_coincides_within_the_transition_only() -> None:
    for steps, before in ((STEPS, 95), (STEPS[::4], 45)):  # it is seen later, and no sooner than at a checkpoint
        assert coincidence(ONE, {"shortly before": before}, steps)
        assert not coincidence(ONE, {"long before": before - 15}, steps)
    assert coincidence(ONE, {"early": 10, "the drop": 150}, STEPS) == "the drop"
    assert not coincidence(ONE, {"late": 1000}, STEPS)


@pytest.mark.parametrize("hi", [0.1, 9.0])
def test_what_happened_after_half_of_a_transition_did_not_begin_it(hi: float) -> None:
    one = ONE._replace(times=TIMES + np.array([0, 0, hi - 0.1]))
    half = float(np.expm1(one.times[1, 0]))
    assert coincidence(one, {"a drop": half}, STEPS)
    assert not coincidence(one, {"a drop": 1.15 * half}, STEPS)


def test_of_several_causes_the_last_one_before_a_transition_is_named() -> None:
    begins = float(np.expm1(TIMES[0, 0]))
    causes = {"after": begins + 1, "long before": begins - 9, "before": begins - 5}
    assert coincidence(ONE, causes, STEPS) == "before"
    assert coincidence(ONE, {"later": begins + 9, "after": begins + 1}, STEPS) == "after"
