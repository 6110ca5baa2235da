"""Growth rates, held to the linearised flow and to the flow itself."""

from typing import Literal

import numpy as np
import pytest
from scipy.integrate import trapezoid

from stagewise.papers.theory.competitive import competitive_fixed_point
from stagewise.papers.theory.cooperative import growth_rates, onset_growth
from stagewise.papers.theory.dynamics import states_at
from stagewise.papers.theory.tensor_factorisation import TensorFactorisation, half_times


def near_the_plateau(theory: TensorFactorisation) -> np.ndarray:
    """Equal heads near the fixed point: 1 % of the attention is left over, and the values have followed."""
    attention = 0.99 * competitive_fixed_point(theory).attention + 0.01 / theory.n_positions
    mass = attention @ theory.membership.T
    values = theory.strengths * mass / (theory.n_heads * (attention**2).sum(1, keepdims=True))
    return np.concatenate([values.reshape(-1), np.log(attention).reshape(-1)])


@pytest.mark.parametrize("flow", ["natural", "logit"])
@pytest.mark.parametrize("widths", [(1, 1), (2, 3)])
def test_the_rate_of_the_next_group_is_the_largest_eigenvalue(
    flow: Literal["natural", "logit"], widths: tuple[int, int]
) -> None:
    theory = TensorFactorisation((3.0, 1.0), widths, n_positions=8, n_heads=2, flow=flow, noise=0.0)
    state, eps = near_the_plateau(theory), 1e-6
    columns = [(theory.velocity(state + eps * e) - theory.velocity(state - eps * e)) for e in np.eye(len(state))]
    jacobian = np.array(columns).T / (2 * eps)
    # Differences between two heads: the part that changes sign when they are exchanged.
    halves = [slice(0, 2), slice(2, 4)], [slice(4, 12), slice(12, 20)]
    pick = np.zeros((10, 20))
    for block, place in zip(halves, (slice(0, 2), slice(2, 10)), strict=True):
        size = place.stop - place.start
        pick[place, block[0]], pick[place, block[1]] = np.eye(size) / np.sqrt(2), -np.eye(size) / np.sqrt(2)
    largest = np.linalg.eigvals(pick @ jacobian @ pick.T).real.max()
    attention = theory.heads(state).attention[0]
    assert growth_rates(theory, attention)[1] == pytest.approx(largest, rel=0.05)


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("flow", "window", "observed", "predicted"),
    [("natural", (20, 90), 9.63, 9.79), ("logit", (200, 1000), 7.37, 6.84)],
)
def test_differences_grow_as_the_rates_say(
    flow: Literal["natural", "logit"], window: tuple[float, float], observed: float, predicted: float
) -> None:
    theory = TensorFactorisation(flow=flow, noise=1e-8)
    times = np.linspace(*window, 200)
    heads = theory.heads(states_at(theory, times))
    apart = np.linalg.norm(heads.values[:, :, 1] - heads.values[:, :, 1].mean(1, keepdims=True), axis=1)
    rates = [growth_rates(theory, attention.mean(0))[1] for attention in heads.attention]
    growth = np.log(apart[-1] / apart[0])
    assert growth == pytest.approx(observed, rel=0.01)
    assert trapezoid(rates, times) == pytest.approx(predicted, rel=0.01)
    assert trapezoid(rates, times) == pytest.approx(growth, rel=0.1)


def test_the_most_important_group_left_grows_fastest() -> None:
    rates = growth_rates(TensorFactorisation(), np.full(40, 1 / 40))
    assert rates.argsort().tolist() == [2, 1, 0]


@pytest.mark.parametrize("theory", [TensorFactorisation((2.0, 1.0), (1, 3)), TensorFactorisation(flow="logit")])
def test_onset_growth_is_refused_where_it_was_not_derived(theory: TensorFactorisation) -> None:
    with pytest.raises(ValueError, match="natural flow with groups of one position"):
        onset_growth(theory, 100.0)


@pytest.mark.parametrize(
    ("strengths", "group"), [((1.0, 1.0), 1), ((1.0, 2.0), 1), ((2.0, 1.0), 0), ((2.0, 1.0), 2), ((2.0, 1.0), -1)]
)
def test_onset_growth_is_of_a_group_weaker_than_the_first(strengths: tuple[float, float], group: int) -> None:
    with pytest.raises(ValueError, match=rf"group {group} .*weaker than the first.*strengths"):
        onset_growth(TensorFactorisation(strengths, (1, 1)), 100.0, group)


@pytest.mark.slow
def test_the_root_of_the_second_time_rises_with_the_logarithm_of_the_noise() -> None:
    noises = np.array([1e-4, 1e-6, 1e-8, 1e-10, 1e-12])
    roots = np.sqrt([half_times(TensorFactorisation(noise=noise), 400)[1] for noise in noises])
    slopes = np.diff(roots) / np.diff(np.log(1 / noises))
    limit = 1 / onset_growth(TensorFactorisation(), 1.0)
    assert np.all(np.diff(slopes) < 0)
    assert limit < slopes[-1] < 1.1 * limit
