"""Gradient flows of a few variables that model the training of a transformer, and their integration."""

import abc
import math

import numpy as np
from scipy.integrate import solve_ivp

from stagewise.papers.theory.dynamics import AbstractReducedDynamics, State
from stagewise.papers.theory.early_time import blow_up_time
from stagewise.table import LabelledArray

THRESHOLD = 0.1
"""Test loss at which a plateau has ended: a fifth of the initial 0.5 (Zucchet et al., appendix D.2)."""

NUDGE = 1e-5
"""Step of the central differences of `hessian`; rounding and curvature errors are both below 1e-9 there."""


class AbstractPlateauFlow(AbstractReducedDynamics):
    """A gradient flow of few variables, all zero at first, whose loss stays on a plateau and then falls.

    Losses are half squared errors, 0.5 at the start. The variables start at exactly 0, so that the relative tolerance
    of the solver alone would stall it.
    """

    solver = ("LSODA", 1e-9, 1e-12)
    variables: tuple[str, ...]
    """Names of the entries of a state."""

    n_copies: int = 1
    """B, how many tokens of a sequence are relevant."""

    @property
    @abc.abstractmethod
    def rate(self) -> float:
        """Growth rate of the linearised flow."""

    @property
    def time_scale(self) -> float:
        """About how long the plateau is: `early_time.blow_up_time`."""
        return blow_up_time(self.rate)

    @property
    def mobility(self) -> tuple[float, ...]:
        """How fast each variable goes down the training loss: its velocity is this times minus the derivative."""
        return (1.0,) * len(self.variables)

    @abc.abstractmethod
    def loss(self, state: State) -> float:
        """Return the training loss."""

    @abc.abstractmethod
    def test_loss(self, state: State) -> float:
        """Return the loss on the test distribution."""

    @abc.abstractmethod
    def attention(self, state: State) -> float:
        """Return the attention on each relevant token, in [0, 1]."""

    def initial_state(self) -> np.ndarray:
        """Return zeros."""
        return np.zeros(len(self.variables))

    def curves(self, states: np.ndarray) -> dict[str, list[LabelledArray]]:
        """Return the test loss, the attention on all relevant tokens together, and each variable as `Theory`."""
        loss = np.array([self.test_loss(state) for state in states])
        mass = np.array([[self.n_copies * self.attention(state)] for state in states])
        variables = zip(self.variables, states.T, strict=True)
        return {
            "Loss": [LabelledArray("time", loss, "squared_error")],
            "AttentionTo": [LabelledArray("time relation", mass, "mass", {"relation": ["relevant"]})],
            "Theory": [LabelledArray("time", values, name) for name, values in variables],
        }


def plateau(dynamics: AbstractPlateauFlow, threshold: float = THRESHOLD, budget: float | None = None) -> float:
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
    method, rtol, atol = dynamics.solver
    solved = solve_ivp(
        lambda _, state: dynamics.velocity(list(state)),
        (0.0, budget), dynamics.initial_state(), method, events=reached, rtol=rtol, atol=atol,
    )  # fmt: skip
    (times,) = solved.t_events or ([],)
    if not len(times):
        raise ValueError(
            f"{dynamics} is still above a loss of {threshold} at time {budget:g}: raise the budget or the threshold"
        )
    return float(times[0])


def plateau_of_descent(
    dynamics: AbstractPlateauFlow,
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
    state: State = dynamics.initial_state().tolist()
    for step in range(math.ceil(budget / learning_rate) + 1):
        loss = dynamics.test_loss(state)
        if loss <= threshold:
            return learning_rate * step
        if not loss < 10:
            raise ValueError(f"gradient descent on {dynamics} diverges at rate {learning_rate}: lower the rate")
        slope = dynamics.velocity(state)
        state = tuple(x + learning_rate * v for x, v in zip(state, slope, strict=True))
    raise ValueError(
        f"{dynamics} is still above a loss of {threshold} at time {budget:g}: raise the budget or the threshold"
    )


def hessian(dynamics: AbstractPlateauFlow, state: State) -> np.ndarray:
    """Return the Hessian of the training loss at a state [variable, variable], by central differences.

    The gradient is the velocity over minus the mobility, exact: its differences lose fewer digits than the loss's.
    """
    mobility = np.asarray(dynamics.mobility)
    columns = []
    for i in range(len(state)):
        above, below = list(state), list(state)
        above[i] += NUDGE
        below[i] -= NUDGE
        columns.append(np.subtract(dynamics.velocity(below), dynamics.velocity(above)) / (2 * NUDGE * mobility))
    raw = np.stack(columns)
    return np.asarray((raw + raw.T) / 2)


def _check_threshold(dynamics: AbstractPlateauFlow, threshold: float) -> None:
    start = dynamics.test_loss(dynamics.initial_state())
    if not 0 < threshold < start:
        raise ValueError(f"the threshold lies between 0 and the initial loss {start:g}, got {threshold}")
