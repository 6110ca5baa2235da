"""Gradient flows of a few variables that stand for a whole model, and how to follow them."""

import abc
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

State = Sequence[float] | np.ndarray
"""A value for each variable."""

THRESHOLD = 0.1
"""Test loss at which a plateau has ended: a fifth of the initial 0.5 (Zucchet et al., appendix D.2)."""

RTOL, ATOL = 1e-9, 1e-12
"""Of the ODE solver. The variables start at exactly 0, so the relative tolerance alone would stall it."""

NUDGE = 1e-5
"""Step of the central differences of `hessian`; rounding and curvature errors are both below 1e-9 there."""


class AbstractReducedDynamics(abc.ABC):
    """A gradient flow of few variables. A leaf is a frozen dataclass of its parameters; all methods are pure.

    Time is learning rate times optimiser steps. Losses are half squared errors, 0.5 at the start.
    """

    variables: tuple[str, ...]

    @property
    def initial(self) -> tuple[float, ...]:
        """The state at time 0: all variables zero."""
        return (0.0,) * len(self.variables)

    @property
    @abc.abstractmethod
    def time_scale(self) -> float:
        """About how long the plateau is."""

    @abc.abstractmethod
    def velocity(self, state: State) -> tuple[float, ...]:
        """Return the time derivative of every variable."""

    @abc.abstractmethod
    def loss(self, state: State) -> float:
        """Return the training loss."""

    @abc.abstractmethod
    def test_loss(self, state: State) -> float:
        """Return the loss on the test distribution."""

    @abc.abstractmethod
    def attention(self, state: State) -> float:
        """Return the attention on each relevant token, in [0, 1]."""


class Trajectory(NamedTuple):
    """Times, and the state at each of them [time, variable]."""

    times: np.ndarray
    states: np.ndarray


def follow(dynamics: AbstractReducedDynamics, times: Sequence[float] | np.ndarray) -> Trajectory:
    """Integrate the flow from time 0 and return its states at `times`, which ascend.

    Raises:
        ValueError: the times do not ascend from 0 or later.
    """
    times = np.asarray(times, dtype=float)
    if len(times) == 0 or times[0] < 0 or (np.diff(times) <= 0).any():
        raise ValueError(f"times must ascend, the first at 0 or later; got {times.tolist()}")
    solved = solve_ivp(
        lambda _, state: dynamics.velocity(list(state)),
        (0.0, float(times[-1])), dynamics.initial, "LSODA", times, rtol=RTOL, atol=ATOL,
    )  # fmt: skip
    return Trajectory(times, solved.y.T)


def plateau(dynamics: AbstractReducedDynamics, threshold: float = THRESHOLD, budget: float | None = None) -> float:
    """Return the time at which the test loss of the flow has fallen to `threshold`.

    Args:
        dynamics: the flow.
        threshold: a loss between 0 and that at the start.
        budget: the longest time to follow it; None is twenty times its time scale.

    Raises:
        ValueError: the threshold is no loss below the initial one, or is not reached within the budget.
    """
    _check_threshold(dynamics, threshold)
    budget = 20 * dynamics.time_scale if budget is None else budget

    def reached(_: float, state: State) -> float:
        return dynamics.test_loss(list(state)) - threshold

    reached.terminal = True  # type: ignore[attr-defined]
    solved = solve_ivp(
        lambda _, state: dynamics.velocity(list(state)),
        (0.0, budget), dynamics.initial, "LSODA", events=reached, rtol=RTOL, atol=ATOL,
    )  # fmt: skip
    (times,) = solved.t_events or ([],)
    if not len(times):
        raise ValueError(f"{dynamics} is still above a loss of {threshold} at time {budget:g}: raise the budget")
    return float(times[0])


def plateau_of_descent(
    dynamics: AbstractReducedDynamics,
    learning_rate: float,
    threshold: float = THRESHOLD,
    budget: float | None = None,
) -> float:
    """Return the same time for explicit gradient descent: learning rate times steps to the threshold.

    Raises:
        ValueError: as `plateau`; a learning rate that is not positive, or so large that the descent diverges.
    """
    _check_threshold(dynamics, threshold)
    if not learning_rate > 0:
        raise ValueError(f"the learning rate must be positive, got {learning_rate}")
    budget = 20 * dynamics.time_scale if budget is None else budget
    state: State = dynamics.initial
    for step in range(math.ceil(budget / learning_rate) + 1):
        loss = dynamics.test_loss(state)
        if loss <= threshold:
            return learning_rate * step
        if not loss < 10:
            raise ValueError(f"gradient descent on {dynamics} diverges at rate {learning_rate}: lower the rate")
        slope = dynamics.velocity(state)
        state = tuple(x + learning_rate * v for x, v in zip(state, slope, strict=True))
    raise ValueError(f"{dynamics} is still above a loss of {threshold} at time {budget:g}: raise the budget")


def hessian(dynamics: AbstractReducedDynamics, state: State) -> np.ndarray:
    """Return the Hessian of the training loss at a state [variable, variable], by central differences."""
    columns = []
    for i in range(len(state)):
        there, back = list(state), list(state)
        there[i] += NUDGE
        back[i] -= NUDGE
        columns.append(np.subtract(dynamics.velocity(back), dynamics.velocity(there)) / (2 * NUDGE))
    raw = np.stack(columns)
    symmetric: np.ndarray = (raw + raw.T) / 2
    return symmetric


def _check_threshold(dynamics: AbstractReducedDynamics, threshold: float) -> None:
    start = dynamics.test_loss(dynamics.initial)
    if not 0 < threshold < start:
        raise ValueError(f"the threshold lies between 0 and the initial loss {start:g}, got {threshold}")
