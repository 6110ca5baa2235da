"""The toy model by SGD against the flow that stands for it."""

import math

import pytest
import torch

from stagewise.papers.emergence.toy_attention import HOOKS, build_toy, population_loss, run_toy
from stagewise.papers.tasks import SparseRegression
from stagewise.papers.theory.plateau_flow import plateau
from stagewise.papers.theory.sparse_attention import SparseAttention


@pytest.mark.parametrize("n_copies", [1, 3])
def test_the_population_loss_is_the_mean_over_many_samples(n_copies: int) -> None:
    task = SparseRegression(n_positions=6, d=4, n_copies=n_copies)
    generator = torch.Generator().manual_seed(0)
    logits, W = torch.randn(6, generator=generator), torch.randn(4, 4, generator=generator)
    batch = task.sample(40_000, seed=0)
    outputs = torch.einsum("t,btd->bd", logits.softmax(0), batch.tokens) @ W.T
    sampled = ((outputs - batch.targets[:, -1]) ** 2).sum(-1).mean().item() / 2
    assert population_loss(logits, W, task.teacher(), n_copies) == pytest.approx(sampled, rel=0.02)


@pytest.mark.slow
def test_stochastic_descent_takes_as_long_as_the_flow() -> None:
    found, flow = run_toy(128, 32), plateau(SparseAttention(128, 32))
    print(f"check 8: ({found['lo']:g}, {found['hi']:g}] steps of SGD, the flow {flow:.1f}")
    assert found["hi"] - found["lo"] == 5
    assert flow == pytest.approx(978, abs=1)
    assert found["hi"] == pytest.approx(flow, rel=0.15)


def test_a_budget_too_short_is_censored() -> None:
    assert run_toy(32, 8, budget=22) == {"lo": 20, "hi": math.inf}


def test_parameters_without_a_meaning_are_refused() -> None:
    with pytest.raises(ValueError, match="n_copies=40, n_positions=32"):
        run_toy(32, 8, B=40)
    with pytest.raises(ValueError, match="the budget, 2 steps, must reach the second evaluation, after 5"):
        run_toy(32, 8, budget=2)


def test_the_toy_model_is_a_weighted_mean_and_can_be_hooked() -> None:
    toy, x = build_toy(4, 3), torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        toy.W.copy_(torch.diag(torch.tensor([1.0, 2.0, 3.0])))
        toy.logits[3] = math.log(3)
        outputs, cache = toy.run_with_cache(x)
        expected = (x[:, :3].sum(1) + 3 * x[:, 3]) / 6 * torch.tensor([1.0, 2.0, 3.0])
        assert torch.allclose(outputs, expected, atol=1e-6)
        assert cache["hook_pattern"][0].tolist() == pytest.approx([1 / 6] * 3 + [0.5])
        assert set(HOOKS) <= set(cache)
        last_alone = toy.run_with_hooks(x, fwd_hooks=[("hook_pattern", lambda _, hook: torch.eye(4)[[3, 3]])])
    assert torch.allclose(last_alone, x[:, 3] * torch.tensor([1.0, 2.0, 3.0]), atol=1e-6)
