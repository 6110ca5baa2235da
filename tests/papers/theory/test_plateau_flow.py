"""Following a flow, on the paper's flows and at the edges of what may be asked."""

import numpy as np
import pytest

from stagewise.papers.theory.cross_sample import CrossSampleRepetition
from stagewise.papers.theory.dynamics import states_at
from stagewise.papers.theory.plateau_flow import AbstractPlateauFlow, hessian, plateau, plateau_of_descent
from stagewise.papers.theory.sparse_attention import SparseAttention

FLOW = SparseAttention(512, 64)


def test_a_trajectory_starts_at_zero_and_its_losses_fall() -> None:
    times = np.linspace(0, 8000, 81)
    states = states_at(FLOW, times)
    assert states[0].tolist() == [0, 0]
    losses = [FLOW.loss(state) for state in states.tolist()]
    assert losses[0] == 0.5
    assert (np.diff(losses) < 0).all()
    assert times[-1] == 8000


def test_gradient_descent_at_a_small_rate_is_the_flow() -> None:
    small = SparseAttention(64, 16)
    assert plateau_of_descent(small, 0.01) == pytest.approx(plateau(small), rel=1e-3)


FLOWS: list[AbstractPlateauFlow] = [
    FLOW,
    SparseAttention(128, 16, 4),
    SparseAttention(128, 16, 4, "free"),
    CrossSampleRepetition(128, 16, 0.2),
]
"""Of each kind, with logits that move as one parameter and logits that do not."""


@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_the_hessian_is_that_of_the_loss(flow: AbstractPlateauFlow) -> None:
    state, step = np.array([3.0, 2.0, 1.0])[-len(flow.variables) :], 1e-3
    moves = step * np.eye(len(state))
    by_loss = [
        [sum(a * b * flow.loss(state + a * one + b * other) for a in (1, -1) for b in (1, -1)) for other in moves]
        for one in moves
    ]
    assert hessian(flow, state) == pytest.approx(np.array(by_loss) / (4 * step**2), rel=1e-3, abs=1e-8)


@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_the_velocity_goes_down_the_loss_at_the_variables_mobilities(flow: AbstractPlateauFlow) -> None:
    state, step = np.array([3.0, 2.0, 1.0])[-len(flow.variables) :], 1e-5
    slopes = [(flow.loss(state + move) - flow.loss(state - move)) / (2 * step) for move in step * np.eye(len(state))]
    assert flow.velocity(state) == pytest.approx(-np.array(flow.mobility) * slopes, rel=1e-6)


@pytest.mark.parametrize("find", [plateau, lambda flow, **kw: plateau_of_descent(flow, 10.0, **kw)])
def test_a_budget_too_short_is_an_error_and_no_time(find) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=r"still above a loss of 0\.1 at time 100: raise the budget or the threshold"):
        find(FLOW, budget=100.0)


@pytest.mark.parametrize("threshold", [0.0, 0.5, -1.0])
def test_a_threshold_outside_the_losses_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match=r"the threshold lies between 0 and the initial loss 0\.5"):
        plateau(FLOW, threshold)


def test_a_diverging_descent_says_so() -> None:
    with pytest.raises(ValueError, match="diverges at rate 50"):
        plateau_of_descent(SparseAttention(64, 16), 50.0)
    with pytest.raises(ValueError, match="must be positive, got 0"):
        plateau_of_descent(FLOW, 0.0)


@pytest.mark.parametrize("times", [[], [3.0, 2.0], [-1.0, 2.0]])
def test_times_that_do_not_ascend_are_refused(times: list[float]) -> None:
    with pytest.raises(ValueError, match="times must ascend"):
        states_at(FLOW, times)
