"""What size of change would be seen: found by putting it in, and honest where a curve hides it."""

import numpy as np
import pytest

from stagewise.statistics import DEFAULT, StageCriteria, find_transitions
from stagewise.statistics._constants import OFTEN, PLACES
from stagewise.statistics._power import power

STEPS = np.arange(0, 3000, 50.0)


@pytest.mark.parametrize("noise", [0.005, 0.03])
def test_more_noise_hides_a_larger_change_and_that_size_is_seen(noise: float) -> None:
    flat = 0.5 + noise * np.random.default_rng(0).standard_normal(len(STEPS))
    seen = power(STEPS, flat, 0.01, StageCriteria(smallest=0.01), up=True)
    assert seen.found >= OFTEN
    assert 2 * noise < seen.size < 30 * noise
    # At another time than those that were tried.
    change = seen.size / (1 + np.exp(-(np.log1p(STEPS) - np.log1p(900)) / 0.15))
    (found,) = find_transitions(STEPS, (flat + change)[None])
    assert [one.size > 0 for one in found.transitions] == [True]


def test_what_is_missed_up_to_the_range_of_the_curve_is_said_to_be() -> None:
    walk = np.cumsum(np.random.default_rng(1).standard_normal(len(STEPS))) * 0.05
    missed = power(STEPS, walk, 0.2, DEFAULT, up=False, largest=0.5)
    assert missed.found < OFTEN <= PLACES
    assert missed.size == 0.4
