"""Sampled SGD on the regression variant, held to the gradient flow and its plateaus."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise.experiments.incremental import regression
from stagewise.experiments.incremental.regression import PositionHeads, RegressionPlan, train_and_measure
from stagewise.table import select
from stagewise.tasks.markov_regression import MarkovRegression
from stagewise.theory.competitive import plateau_losses
from stagewise.theory.dynamics import predict

PLATEAU = 0.05
SHORT = RegressionPlan(steps=200, save_every=20)


def losses(table: pd.DataFrame) -> pd.Series:
    return select(table, "Loss", "squared_error").set_index("step")["value"]


def plateaus(loss: pd.Series, between: list[int]) -> list[float]:
    """The loss where it falls least from one saved step to the next, in each stretch of steps."""
    stretches = [loss.loc[start:stop] for start, stop in itertools.pairwise(between)]
    return [float(part.iloc[1 + part.diff().iloc[1:].abs().argmin()]) for part in stretches]


def test_the_prediction_is_the_sum_of_what_each_head_reads() -> None:
    heads = PositionHeads(torch.randn(2, 3, generator=torch.Generator().manual_seed(0)), dim=4)
    torch.nn.init.normal_(heads.values, generator=torch.Generator().manual_seed(1))
    inputs = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(2))
    expected = sum(heads.logits[h].softmax(0)[i] * inputs[:, i] @ heads.values[h].T for h in range(2) for i in range(3))
    torch.testing.assert_close(heads(inputs), expected)


def test_the_expected_gradient_step_is_that_of_the_flow() -> None:
    task = MarkovRegression(dim=3)
    theory = regression.theory(task, noise=0.5)
    plan = RegressionPlan(steps=1, batch_size=200_000, learning_rate=0.01, save_every=1)
    table = train_and_measure(task, theory, plan, progress=False)
    moved = select(table, "ValueAlignment", "projection", step=1)["value"].to_numpy().reshape(3, 3)
    velocity = theory.velocity(theory.initial_state())[:9].reshape(3, 3)
    np.testing.assert_allclose(moved * np.array(task.strengths), 0.01 * velocity, rtol=0.05)


def test_a_run_follows_the_theory_through_its_first_stage() -> None:
    task = MarkovRegression()
    theory = regression.theory(task)
    measured = losses(train_and_measure(task, theory, SHORT, progress=False))
    expected = losses(predict(theory, SHORT.saved_steps, SHORT.learning_rate))
    np.testing.assert_allclose(measured, expected, rtol=PLATEAU)


def test_measured_and_predicted_tables_have_the_same_rows() -> None:
    task, plan = MarkovRegression(), RegressionPlan(steps=2, save_every=1)
    theory = regression.theory(task)
    keys = ["step", "probe", "quantity", "layer", "head", "relation", "feature"]
    tables = train_and_measure(task, theory, plan, progress=False), predict(theory, [0, 1, 2])
    ours, theirs = (table[table.quantity != "group_squared_error"][keys] for table in tables)
    pd.testing.assert_frame_equal(*(t.sort_values(keys, ignore_index=True) for t in (ours, theirs)))


def test_a_theory_of_another_number_of_lags_is_refused() -> None:
    theory = dataclasses.replace(regression.theory(MarkovRegression()), n_positions=9)
    with pytest.raises(ValueError, match=r"the task has 8 lags .* the theory 9"):
        train_and_measure(MarkovRegression(), theory, SHORT, progress=False)


def test_a_rate_that_is_too_large_stops_with_the_step() -> None:
    plan = RegressionPlan(steps=400, learning_rate=30.0)
    with pytest.raises(FloatingPointError, match=r"at step \d+; lower the learning rate"):
        train_and_measure(MarkovRegression(), regression.theory(MarkovRegression()), plan, progress=False)


@pytest.mark.slow
def test_sampled_sgd_passes_the_plateaus_of_the_theory() -> None:
    task = MarkovRegression()
    theory = regression.theory(task)
    loss = losses(train_and_measure(task, theory, RegressionPlan(), progress=False))
    first, second, third = regression.stage_steps(theory, RegressionPlan())
    found = plateaus(loss, [int(first), int(second), int(third)])
    np.testing.assert_allclose(plateau_losses(theory)[:3], [12.24, 3.89, 1.0], atol=5e-3)
    np.testing.assert_allclose(found, plateau_losses(theory)[1:3], rtol=PLATEAU)
    assert loss.iloc[0] == pytest.approx(plateau_losses(theory)[0], rel=PLATEAU)
    assert loss.iloc[-1] < PLATEAU * plateau_losses(theory)[2]
