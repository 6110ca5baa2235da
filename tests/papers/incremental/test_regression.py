"""Sampled SGD on the regression variant, held to the gradient flow and its plateaus."""

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from stagewise import models
from stagewise.papers.incremental import _regression as regression
from stagewise.papers.incremental._regression import regression_recipe, sgd, train_and_measure
from stagewise.papers.position_heads import position_heads
from stagewise.papers.tasks.markov_regression import MarkovRegression
from stagewise.papers.theory.competitive import plateau_losses
from stagewise.papers.theory.dynamics import solve
from stagewise.papers.theory.tensor_factorisation import TensorFactorisation, half_times
from stagewise.recipe import TrainPlan
from stagewise.table import select
from stagewise.training import train

pytestmark = pytest.mark.usefixtures("unchecked")

PLATEAU = 0.05
SHORT = sgd(steps=200, save_every=20)


def measured(task: MarkovRegression, theory: TensorFactorisation, plan: TrainPlan, folder: Path) -> pd.DataFrame:
    return train_and_measure(regression_recipe(task, theory, plan), folder, progress=False)


def losses(table: pd.DataFrame) -> pd.Series:
    return select(table, "Loss", "squared_error").set_index("step")["value"]


def plateaus(loss: pd.Series, between: list[int]) -> list[float]:
    """The loss where it falls least from one saved step to the next, in each stretch of steps."""
    stretches = [loss.loc[start:stop] for start, stop in itertools.pairwise(between)]
    return [float(part.iloc[1 + part.diff().iloc[1:].abs().argmin()]) for part in stretches]


def test_the_prediction_is_the_sum_of_what_each_head_reads() -> None:
    logits = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))
    built = models.build(position_heads(4, 3, 2, tuple(map(tuple, logits.tolist()))))
    values = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(1))
    state = models.weights(built)
    state["blocks.0.attn.W_O"][:, :4, -4:] = values.mT
    models.load(built, state)
    inputs = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(2))
    expected = sum(logits[h].softmax(0)[i] * inputs[:, i] @ values[h].T for h in range(2) for i in range(3))
    outputs, _ = models.clean_pass(built, inputs, (), regression=True)
    torch.testing.assert_close(outputs[:, -1], expected)


def test_only_logits_and_values_train_and_the_padding_stays(tmp_path: Path) -> None:
    task = MarkovRegression()
    series = train(
        regression_recipe(task, regression.theory(task), sgd(steps=5, save_every=5)), tmp_path, progress=False
    )
    first, last = series.weights(0), series.weights(5)
    assert {name for name in first if not torch.equal(first[name], last[name])} == {
        "blocks.0.attn.b_Q",
        "blocks.0.attn.W_O",
    }
    trained = last["blocks.0.attn.W_O"][:, :6, -6:].clone()
    last["blocks.0.attn.W_O"][:, :6, -6:] = 0
    assert trained.any()
    assert not last["blocks.0.attn.W_O"].any()


@pytest.mark.slow
def test_the_expected_gradient_step_is_that_of_the_flow(tmp_path: Path) -> None:
    task = MarkovRegression(dim=3)
    theory = regression.theory(task, noise=0.5)
    plan = sgd(steps=1, batch_size=200_000, learning_rate=0.01, save_every=1)
    table = measured(task, theory, plan, tmp_path)
    moved = select(table, "ValueAlignment", "projection", step=1)["value"].to_numpy().reshape(3, 3)
    velocity = theory.velocity(theory.initial_state())[:9].reshape(3, 3)
    np.testing.assert_allclose(moved * np.array(task.strengths), 0.01 * velocity, rtol=0.05)


@pytest.mark.slow
def test_a_run_follows_the_theory_through_its_first_stage(tmp_path: Path) -> None:
    task = MarkovRegression()
    theory = regression.theory(task)
    loss = losses(measured(task, theory, SHORT, tmp_path))
    expected = losses(solve(theory, SHORT.saved_steps, SHORT.learning_rate))
    np.testing.assert_allclose(loss, expected, rtol=PLATEAU)


def test_every_predicted_row_is_measured_too(tmp_path: Path) -> None:
    task, plan = MarkovRegression(), sgd(steps=2, save_every=1)
    theory = regression.theory(task)
    keys = ["step", "probe", "quantity", "layer", "head", "relation", "feature"]
    tables = measured(task, theory, plan, tmp_path), solve(theory, [0, 1, 2])
    both = ("squared_error", "mass", "projection")
    measured_too = (table[table.quantity.isin(both)][keys] for table in tables)
    ours, theirs = (rows.sort_values(keys, ignore_index=True) for rows in measured_too)
    assert set(tables[1].quantity) == {*both, "group_squared_error"}
    pd.testing.assert_frame_equal(ours, theirs)


def test_a_theory_of_another_number_of_lags_is_refused() -> None:
    theory = dataclasses.replace(regression.theory(MarkovRegression()), n_positions=9)
    with pytest.raises(ValueError, match=r"the task has 8 lags .* the theory 9"):
        regression_recipe(MarkovRegression(), theory, SHORT)


def test_a_rate_that_is_too_large_stops_with_the_step(tmp_path: Path) -> None:
    plan = sgd(steps=400, learning_rate=30.0)
    with pytest.raises(FloatingPointError, match=r"at step \d+; lower the learning rate"):
        measured(MarkovRegression(), regression.theory(MarkovRegression()), plan, tmp_path)


@pytest.mark.slow
def test_sampled_sgd_passes_the_plateaus_of_the_theory(tmp_path: Path) -> None:
    task = MarkovRegression()
    theory = regression.theory(task)
    loss = losses(measured(task, theory, sgd(), tmp_path))
    rate = sgd().learning_rate
    first, second, third = (time / rate for time in half_times(theory, rate * sgd().steps))
    found = plateaus(loss, [int(first), int(second), int(third)])
    np.testing.assert_allclose(plateau_losses(theory)[:3], [12.24, 3.89, 1.0], atol=5e-3)
    np.testing.assert_allclose(found, plateau_losses(theory)[1:3], rtol=PLATEAU)
    assert loss.iloc[0] == pytest.approx(plateau_losses(theory)[0], rel=PLATEAU)
    assert loss.iloc[-1] < PLATEAU * plateau_losses(theory)[2]
