"""The toy model by SGD against the flow that stands for it."""

import math

import pytest
import torch

from stagewise.experiments.toy_attention import population_loss, run_toy
from stagewise.tasks import SparseRegression
from stagewise.theory.plateau_flow import plateau
from stagewise.theory.sparse_attention import SparseAttention


@pytest.mark.parametrize("n_copies", [1, 3])
def test_the_population_loss_is_the_mean_over_many_samples(n_copies: int) -> None:
    task = SparseRegression(n_positions=6, d=4, n_copies=n_copies)
    generator = torch.Generator().manual_seed(0)
    logits, W = torch.randn(6, generator=generator), torch.randn(4, 4, generator=generator)
    batch = task.sample(40_000, seed=0)
    outputs = torch.einsum("t,btd->bd", logits.softmax(0), batch.tokens) @ W.T
    sampled = ((outputs - batch.targets[:, -1]) ** 2).sum(-1).mean().item() / 2
    assert population_loss(logits, W, task.teacher(), n_copies) == pytest.approx(sampled, rel=0.02)


def test_stochastic_descent_takes_as_long_as_the_flow() -> None:
    found = run_toy(128, 32)
    assert found["hi"] - found["lo"] == 5
    assert found["hi"] == pytest.approx(plateau(SparseAttention(128, 32)), rel=0.15)


def test_a_budget_too_short_is_censored() -> None:
    assert run_toy(32, 8, budget=22) == {"lo": 20, "hi": math.inf}


def test_parameters_without_a_meaning_are_refused() -> None:
    with pytest.raises(ValueError, match="n_copies=40, n_positions=32"):
        run_toy(32, 8, B=40)
    with pytest.raises(ValueError, match="budget >= every"):
        run_toy(32, 8, budget=2)
