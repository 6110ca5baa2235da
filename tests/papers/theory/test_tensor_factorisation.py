"""The reduced flow: held to autograd, to an unreduced integration, and to the numbers known of it."""

import math
from typing import Any, Literal

import numpy as np
import pytest
import torch

from stagewise.papers.theory.competitive import plateau_losses
from stagewise.papers.theory.dynamics import solve, states_at
from stagewise.papers.theory.tensor_factorisation import Heads, TensorFactorisation, half_times

pytestmark = pytest.mark.usefixtures("unchecked")

HALF_TIME = 0.03
"""Known half-times have two or three digits."""

PLATEAU = 0.01
FIGURE_10 = 0.02
"""Masses and values of the published figure are read to two digits."""

FIRST = 4.64
"""The mean of the first half-times known of seven runs, 4.5 to 4.7: steps of a solver, which are 0.1 apart there."""

KNOWN = {
    "noise 1e-2": ({"noise": 1e-2}, (FIRST, 17.6, 128.8)),
    "noise 1e-4": ({"noise": 1e-4}, (FIRST, 43.8, 200.3)),
    "noise 1e-6": ({"noise": 1e-6}, (FIRST, 77.6, 276.8)),
    "noise 1e-8": ({"noise": 1e-8}, (FIRST, 118.9, 359.1)),
    "m = 1": ({"noise": 1e-6, "strengths": (1.0, 1.0, 1.0)}, (40, 41, 40)),
    "m = 1.3": ({"noise": 1e-6, "strengths": (1.3**2, 1.3, 1.0)}, (8, 56, 120)),
    "m = 1.5": ({"noise": 1e-6, "strengths": (1.5**2, 1.5, 1.0)}, (5.9, 68, 187)),
    "m = 2": ({"noise": 1e-6, "strengths": (4.0, 2.0, 1.0)}, (3.4, 93, 509)),
    "4 heads": ({"noise": 1e-6, "n_heads": 4}, (4.5, 70.6, 233)),
    "6 heads": ({"noise": 1e-6, "n_heads": 6}, (4.6, 65.9, 144)),
}
"""Half-times of the natural flow. The draw of the noise is on no record; that of this library's seed 0 has them all."""

LOGIT = {1e-2: (21.3, 49.5, 392.8), 1e-4: (21.7, 225.5, 1465.8), 1e-6: (21.7, 663.3, 2439.0)}
"""Half-times of the logit flow by noise, of the same draw."""


def end(theory: TensorFactorisation, time: int | float) -> Heads:
    return theory.heads(states_at(theory, [time])[0])


def slowest_loss(theory: TensorFactorisation, start: float, stop: float) -> float:
    """The loss where it changes least in log(time), between two times."""
    loss = theory.loss(theory.heads(states_at(theory, np.geomspace(start, stop, 200))))
    return float(loss[1 + np.abs(np.diff(loss)).argmin()])


def features(n: int, d: int) -> np.ndarray:
    """n matrices of size d x d with Frobenius inner products delta_jk."""
    q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((d * d, n)))
    return q.T.reshape(n, d, d)


def test_the_loss_starts_at_half_the_square_of_the_target() -> None:
    theory = TensorFactorisation(strengths=(3.0, 2.0), widths=(1, 4), noise=0.1)
    assert theory.loss(theory.heads(theory.initial_state())) == pytest.approx(0.5 * (9 + 4 * 4), rel=1e-12)


@pytest.mark.parametrize("flow", ["natural", "logit"])
def test_the_velocity_is_the_gradient_of_the_unreduced_loss(flow: Literal["natural", "logit"]) -> None:
    theory = TensorFactorisation((2.0, 1.0), (2, 1), n_positions=5, n_heads=3, flow=flow, noise=0.5)
    basis = torch.from_numpy(features(2, 4))
    state = np.random.default_rng(1).standard_normal(theory.initial_state().shape)
    small = torch.from_numpy(state[:6].reshape(3, 2))
    logits = torch.from_numpy(state[6:].reshape(3, 5)).requires_grad_()
    values = torch.einsum("hk,kij->hij", small, basis).requires_grad_()
    attention = logits.softmax(-1)
    attention.retain_grad()
    target = torch.einsum("kp,kij->pij", torch.from_numpy(theory.target), basis)
    (0.5 * (target - torch.einsum("hij,hp->pij", values, attention)).square().sum()).backward()
    assert values.grad is not None
    expected = [-torch.einsum("hij,kij->hk", values.grad, basis)]
    to_attention = logits.grad if flow == "logit" else attention.grad
    assert to_attention is not None
    expected.append(-to_attention)
    velocity = theory.velocity(state)
    np.testing.assert_allclose(velocity, torch.cat([part.reshape(-1) for part in expected]).numpy(), atol=1e-12)


@pytest.mark.slow
def test_half_times_are_those_of_an_euler_integration_of_whole_value_matrices() -> None:
    theory, d, dt = TensorFactorisation(n_positions=10, noise=1e-2), 3, 0.005
    target = np.einsum("kp,kij->ijp", theory.target, features(3, d)).reshape(d * d, 10)
    values, logits, losses = np.zeros((3, d * d)), theory.initial_logits(), []
    for _ in range(20_000):
        attention = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        residual = target - values.T @ attention
        losses.append(0.5 * ((features_of(theory, d) @ residual) ** 2).sum(1))
        values, logits = values + dt * attention @ residual.T, logits + dt * values @ residual
    crossed = dt * (np.array(losses) < np.array(losses)[0] / 2).argmax(0)
    np.testing.assert_allclose(half_times(theory, 100), crossed, rtol=0.01)


def features_of(theory: TensorFactorisation, d: int) -> np.ndarray:
    return features(len(theory.widths), d).reshape(len(theory.widths), d * d)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [1e-4, pytest.param(1e-6, marks=pytest.mark.slow)])
def test_plateaus_are_half_of_what_is_not_learnt(noise: float) -> None:
    theory = TensorFactorisation(noise=noise)
    first, second, third = half_times(theory, 600)
    expected = plateau_losses(theory)
    assert slowest_loss(theory, first, second) == pytest.approx(expected[1], rel=PLATEAU)
    assert slowest_loss(theory, second, third) == pytest.approx(expected[2], rel=PLATEAU)
    assert theory.loss(end(theory, 6 * third)) < PLATEAU * expected[2]


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("parameters", "known"), KNOWN.values(), ids=KNOWN.keys())
def test_half_times_are_the_known_ones(parameters: dict[str, Any], known: tuple[float, ...]) -> None:
    ours = half_times(TensorFactorisation(**parameters), 1.2 * max(known), 1000)
    np.testing.assert_allclose(ours, known, rtol=HALF_TIME)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_second_half_time_grows_with_the_noise_as_known_whatever_the_draw(seed: int) -> None:
    known = np.diff(np.sqrt([KNOWN[f"noise {noise}"][1][1] for noise in ("1e-4", "1e-6", "1e-8")]))
    noises = (1e-4, 1e-6, 1e-8)
    ours = [half_times(TensorFactorisation(noise=noise, seed=seed), 200, 1000)[1] for noise in noises]
    np.testing.assert_allclose(np.diff(np.sqrt(ours)), known, rtol=HALF_TIME)


def test_without_noise_the_flow_stays_at_rank_one() -> None:
    theory = TensorFactorisation(noise=0.0)
    heads = end(theory, 900)
    assert np.ptp(heads.values, axis=0).max() == 0
    assert theory.loss(heads) == pytest.approx(1.945, rel=PLATEAU)
    assert half_times(theory, 900)[1:] == (math.inf, math.inf)


def test_what_starts_alike_is_alike_at_all_times_to_the_last_bit() -> None:
    theory = TensorFactorisation((2.0, 1.5, 1.5), (2, 5, 5), n_positions=15, n_heads=5, noise=0.0)
    heads = end(theory, 3000)
    groups = [np.arange(2), np.arange(2, 12), np.arange(12, 15)]
    assert np.ptp(heads.values, axis=0).max() == np.ptp(heads.attention, axis=0).max() == 0
    assert np.ptp(heads.values[:, 1:], axis=1).max() == 0
    assert [float(np.ptp(heads.attention[:, group])) for group in groups] == [0, 0, 0]
    assert heads.attention[0, 2:12].sum() > 0.99  # 1.5 sqrt(5) is more than 2 sqrt(2): two groups share the heads


def test_a_flow_with_noise_follows_every_entry_by_itself() -> None:
    theory = TensorFactorisation()
    assert len(set(theory.orbits())) == len(theory.initial_state())


def test_noise_that_rounding_swallows_is_refused() -> None:
    with pytest.raises(ValueError, match="noise of 1e-16 is lost in rounding: take 1e-14 or more, or 0"):
        TensorFactorisation(noise=1e-16)


@pytest.mark.slow
def test_two_heads_stop_at_one_half() -> None:
    theory = TensorFactorisation(n_heads=2, noise=1e-6)
    assert theory.loss(end(theory, 900)) == pytest.approx(0.5, rel=PLATEAU)
    assert half_times(theory, 900)[2] == math.inf


def test_groups_of_equal_strength_are_learnt_all_at_once() -> None:
    times = half_times(TensorFactorisation(strengths=(1.0, 1.0, 1.0), noise=1e-6), 200)
    assert max(times) < 1.15 * min(times)


@pytest.mark.one_of(2)
@pytest.mark.parametrize("m", [1.3, 1.5, 1.7, 2.0])
def test_a_steeper_hierarchy_brings_the_first_stage_forward_and_the_second_back(m: float) -> None:
    times, steeper = (half_times(TensorFactorisation((r * r, r, 1.0), noise=1e-6), 150) for r in (m, 1.1 * m))
    assert steeper[0] < times[0]
    assert steeper[1] > times[1]


def test_a_wide_group_comes_first_where_its_block_is_larger() -> None:
    narrow, wide = half_times(TensorFactorisation((1.7, 1.0), (1, 8), noise=1e-6), 500)
    assert narrow == pytest.approx(338, rel=HALF_TIME)
    assert wide < 0.02 * narrow
    narrow, wide = half_times(TensorFactorisation((1.7, 1.0), (1, 2), noise=1e-6), 500)
    assert narrow < wide


@pytest.mark.slow
def test_the_final_state_is_that_of_figure_10_with_its_negative_offsets() -> None:
    heads = end(TensorFactorisation(noise=1e-4), 2000)
    order = [int(heads.attention[:, group].argmax()) for group in (1, 2, 0)]
    masses = [[0.19, 0.80, 0.0], [0.51, 0.0, 0.48], [1.0, 0.0, 0.0]]
    values = [[0.0, 2.13, 0.0], [0.0, -0.02, 2.10], [2.89, -0.39, -1.09]]
    assert sorted(order) == [0, 1, 2]
    np.testing.assert_allclose(heads.attention[order, :3], masses, atol=FIGURE_10)
    np.testing.assert_allclose(heads.values[order], values, atol=FIGURE_10)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "known"), LOGIT.items())
def test_the_logit_flow_has_the_known_half_times(noise: float, known: tuple[float, ...]) -> None:
    ours = half_times(TensorFactorisation(flow="logit", noise=noise), 1.2 * known[2])
    np.testing.assert_allclose(ours, known, rtol=HALF_TIME)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [1e-4, 1e-6])
def test_the_logit_flow_has_the_same_plateaus(noise: float) -> None:
    theory, (first, second, third) = TensorFactorisation(flow="logit", noise=noise), LOGIT[noise]
    assert slowest_loss(theory, first, second) == pytest.approx(1.945, rel=PLATEAU)
    assert slowest_loss(theory, second, third) == pytest.approx(0.5, rel=PLATEAU)


@pytest.mark.slow
def test_the_logit_flow_without_noise_stays_at_rank_one() -> None:
    theory = TensorFactorisation(flow="logit", noise=0.0)
    assert theory.loss(end(theory, 900)) == pytest.approx(1.945, rel=PLATEAU)
    assert half_times(theory, 3000)[1:] == (math.inf, math.inf)


@pytest.mark.slow
def test_a_prediction_holds_the_masses_and_projections_of_every_head() -> None:
    table = solve(TensorFactorisation(), [0, 500, 2000])
    there = table.groupby(["probe", "quantity"]).size().to_dict()
    assert there[("AttentionTo", "mass")] == there[("ValueAlignment", "projection")] == 3 * 3 * 3
    last = table[(table.quantity == "projection") & (table.step == 2000)]
    assert last.value.min() == pytest.approx(-1.09, abs=FIGURE_10)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"widths": (1, 1)}, "every group needs a strength and at least one position"),
        ({"noise": -1.0}, "strengths must be positive, noise not negative, and there must be a head"),
        ({"n_positions": 2}, "the groups fill 3 positions, n_positions is 2"),
    ],
)
def test_impossible_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TensorFactorisation(**parameters)
