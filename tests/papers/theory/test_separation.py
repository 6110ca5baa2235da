"""Heads that start close: when they part, and where the loss ends."""

import math

import numpy as np
import pytest

from stagewise.papers.theory.dynamics import states_at
from stagewise.papers.theory.separation import cooperative_end, least_parting_time, parting_time, separation
from stagewise.papers.theory.tensor_factorisation import Heads, TensorFactorisation

pytestmark = pytest.mark.usefixtures("unchecked")


def test_the_distance_is_that_of_the_farthest_pair() -> None:
    heads = Heads(np.array([[0.0], [3.0], [1.0]]), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    assert separation(heads) == pytest.approx(max(3.0, math.hypot(1, 1, 1), math.hypot(2, 1, 1)))


@pytest.mark.parametrize("noise", [1e-2, 1e-5])
def test_heads_stay_close_at_least_as_long_as_the_bound_says(noise: float) -> None:
    theory = TensorFactorisation(noise=noise)
    parted = parting_time(theory, 200)
    assert 0 < least_parting_time(theory) < parted < 200


@pytest.mark.slow
def test_the_time_of_parting_grows_without_bound_as_the_heads_start_closer() -> None:
    noises = [1e-3, 1e-5, 1e-7, 1e-9]
    times = [parting_time(TensorFactorisation(noise=noise), 300) for noise in noises]
    bounds = [least_parting_time(TensorFactorisation(noise=noise)) for noise in noises]
    assert np.diff(times).min() > 0
    assert np.diff(times).argmax() == 2  # faster than the logarithm: attention to later groups dies down meanwhile
    rate = 0.75 * math.sqrt(2 * 6.12105)
    assert np.diff(bounds) == pytest.approx([math.log(100) / rate] * 3, rel=1e-4)


def test_heads_that_start_equal_never_part() -> None:
    theory = TensorFactorisation(noise=0.0)
    assert parting_time(theory, 200) == least_parting_time(theory) == math.inf


def test_the_bound_is_of_the_natural_flow() -> None:
    with pytest.raises(ValueError, match="of the natural flow, the theory's is 'logit'"):
        least_parting_time(TensorFactorisation(flow="logit"))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("n_heads", [1, 2, 3, 4])
def test_the_cooperative_phase_ends_on_the_plateau_of_as_many_groups_as_heads(n_heads: int) -> None:
    theory = TensorFactorisation(n_heads=n_heads, noise=1e-2)
    end = theory.loss(theory.heads(states_at(theory, [900])))
    assert end.item() == pytest.approx(cooperative_end(theory), abs=0.01)
