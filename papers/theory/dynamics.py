"""Reduced dynamics: an ODE in a few variables, its solution, and its prediction as a table like a measured one."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.integrate import solve_ivp

from stagewise.table import LabelledArray, tidy

State = Sequence[int | float] | np.ndarray
"""A value for each variable."""


class AbstractReducedDynamics(abc.ABC):
    """An ordinary differential equation that models training. A leaf is a frozen dataclass of its parameters, pure.

    A state is one flat vector; a leaf documents its variables. Time is learning rate times optimiser steps.
    """

    solver: ClassVar[tuple[Literal["RK45", "LSODA"], float, float]] = ("RK45", 1e-7, 1e-10)
    """Method, relative and absolute tolerance of scipy's `solve_ivp`."""

    @abc.abstractmethod
    def initial_state(self) -> Float[np.ndarray, " state"]:
        """Return the state at time 0."""

    @abc.abstractmethod
    def velocity(self, state: State) -> State:
        """Return the derivative of the state by time."""

    def orbits(self) -> Int[np.ndarray, " state"]:
        """Return a number for each entry of the state: by symmetry, entries of one number are equal at all times.

        `states_at` follows one entry for each number: rounding cannot part them, however unstable their equality is.
        """
        return np.arange(len(self.initial_state()))

    @abc.abstractmethod
    def curves(self, states: Float[np.ndarray, "time state"]) -> dict[str, list[LabelledArray]]:
        """Return each probe's value in these states, by its name; the first axis of each array is "time"."""


def states_at(
    theory: AbstractReducedDynamics, times: Sequence[int | float] | Float[np.ndarray, " time"]
) -> Float[np.ndarray, "time state"]:
    """Solve the dynamics from time 0 and return the state at each of the times.

    Args:
        theory: the dynamics.
        times: ascending, none negative.

    Raises:
        ValueError: times are not ascending from 0 on.
        RuntimeError: the solver failed; the message is its own.
    """
    at = np.asarray(times, dtype=float)
    if at.ndim != 1 or not at.size or at[0] < 0 or np.any(np.diff(at) <= 0):
        raise ValueError(f"times must ascend, none negative, got {times}")
    start = np.asarray(theory.initial_state(), dtype=float)
    if at[-1] == 0:
        return start[None]
    _, first, orbit = np.unique(theory.orbits(), return_index=True, return_inverse=True)
    method, rtol, atol = theory.solver
    solution = solve_ivp(
        lambda _, state: np.asarray(theory.velocity(state[orbit]))[first],
        (0.0, at[-1]), start[first], method, at, rtol=rtol, atol=atol,
    )  # fmt: skip
    if not solution.success:
        raise RuntimeError(f"{type(theory).__name__} could not be solved up to time {at[-1]}: {solution.message}")
    return np.asarray(solution.y[orbit].T)


def solve(
    theory: AbstractReducedDynamics, steps: Sequence[int], rate: int | float = 1.0, run: str = "theory"
) -> pd.DataFrame:
    """Solve the dynamics and return a table with the columns of a measured one: `run, step, probe, quantity, ...`.

    Pass it as the `theory` argument of a figure in `stagewise.plot`.

    Args:
        theory: the dynamics.
        steps: optimiser steps, ascending; the time of a step is rate * step, as in plain SGD.
        rate: time a step: the learning rate.
        run: what the theory is called in the table.

    Raises:
        ValueError: steps do not ascend from 0 on, or the rate is not positive.
        RuntimeError: the solver failed.
    """
    if not rate > 0:
        raise ValueError(f"rate, the time of one step, must be positive, got {rate}")
    states = states_at(theory, rate * np.asarray(steps, dtype=float))
    return tidy(
        _rows(curve, steps).assign(run=run, probe=probe)
        for probe, curves in theory.curves(states).items()
        for curve in curves
    )


def _rows(curve: LabelledArray, steps: Sequence[int]) -> pd.DataFrame:
    at_steps = dataclasses.replace(curve, labels={**curve.labels, "time": steps})
    return at_steps.frame().rename(columns={"time": "step"})
