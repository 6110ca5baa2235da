"""The base class and `predict`, held to an ODE with a closed solution."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from stagewise import plot
from stagewise.papers.theory.dynamics import AbstractReducedDynamics, State, solve, states_at
from stagewise.papers.theory.tensor_factorisation import TensorFactorisation
from stagewise.table import KEYS, LabelledArray, select


@dataclasses.dataclass(frozen=True)
class Decay(AbstractReducedDynamics):
    rates: tuple[float, ...] = (1.0, 0.5)

    def initial_state(self) -> np.ndarray:
        return np.ones(len(self.rates))

    def velocity(self, state: State) -> np.ndarray:
        return np.asarray(-np.asarray(self.rates) * state)

    def curves(self, states: np.ndarray) -> dict[str, list[LabelledArray]]:
        return {
            "Loss": [LabelledArray("time", states.sum(-1), "squared_error")],
            "AttentionTo": [LabelledArray("time head", states, "mass")],
        }


@dataclasses.dataclass(frozen=True)
class Explosion(Decay):
    def velocity(self, state: State) -> np.ndarray:
        return np.asarray(state) ** 2


def test_the_solution_is_the_closed_one() -> None:
    times = np.linspace(0, 5, 11)
    expected = np.exp(-times[:, None] * np.array([1.0, 0.5]))
    np.testing.assert_allclose(states_at(Decay(), times), expected, rtol=1e-5)


@dataclasses.dataclass(frozen=True)
class Repulsion(Decay):
    """Two variables whose difference grows as e^t, in which rounding makes one."""

    def orbits(self) -> np.ndarray:
        return np.zeros(2, dtype=int)

    def velocity(self, state: State) -> np.ndarray:
        first, second = state
        return np.array([first - second, second - first + 1e-16])


def test_what_is_one_by_symmetry_is_solved_as_one() -> None:
    np.testing.assert_array_equal(states_at(Repulsion(), [0.0, 100.0]), np.ones((2, 2)))


def test_the_solution_at_the_start_alone_is_the_initial_state() -> None:
    np.testing.assert_array_equal(states_at(Decay(), [0.0]), [[1.0, 1.0]])
    assert select(solve(Decay(), [0]), "Loss", "squared_error")["value"].tolist() == [2.0]


def test_a_prediction_has_the_rows_of_a_measured_table() -> None:
    table = solve(Decay(), [0, 10, 40], rate=0.1, run="decay")
    assert list(table.columns[: len(KEYS)]) == KEYS
    assert table["run"].unique().tolist() == ["decay"]
    second = select(table, "AttentionTo", "mass", head=1)
    assert second["step"].tolist() == [0, 10, 40]
    np.testing.assert_allclose(second["value"], np.exp([0, -0.5, -2.0]), rtol=1e-5)


def test_a_prediction_is_drawn_dashed_over_a_measured_curve() -> None:
    table = solve(Decay(), [0, 10, 40], rate=0.1)
    measured = pd.concat([table.assign(run="measured", value=2 * table["value"])])
    solid, dashed = plot.loss_curve(measured, theory=table).get_lines()
    assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")
    np.testing.assert_allclose(np.asarray(solid.get_ydata()), 2 * np.asarray(dashed.get_ydata()))


def test_a_heads_masses_are_drawn_with_those_of_the_theory_dashed() -> None:
    table = solve(TensorFactorisation(n_positions=4), [0, 10, 40])
    lines = plot.head_masses(table, 0, 1, theory=table).get_lines()
    assert [line.get_linestyle() for line in lines] == ["-"] * 3 + ["--"] * 3
    for solid, dashed in zip(lines[:3], lines[3:], strict=True):
        np.testing.assert_array_equal(solid.get_xydata(), dashed.get_xydata())


@pytest.mark.parametrize("times", [[], [1.0, 1.0], [-1.0, 2.0]])
def test_times_that_do_not_ascend_are_refused(times: list[float]) -> None:
    with pytest.raises(ValueError, match="times must ascend, none negative"):
        states_at(Decay(), times)


def test_a_rate_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="rate, the time of one step, must be positive, got 0"):
        solve(Decay(), [0, 1], rate=0.0)


def test_a_solution_that_blows_up_is_an_error_not_a_table() -> None:
    with pytest.raises(RuntimeError, match=r"Explosion could not be solved up to time 2\.0"):
        states_at(Explosion(), [2.0])
