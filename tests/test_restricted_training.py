"""Restricted-context models beside a run: which are trained."""

import concurrent.futures
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stagewise.analysis import baselines_beside, chosen_contexts
from stagewise.architecture import Architecture
from stagewise.architectures import full
from stagewise.papers.tasks import AssociativeRecall, SparseRegression
from stagewise.recipe import Recipe, TrainPlan
from stagewise.tasks import MarkovChain, RepeatedTokens
from stagewise.tasks.windows import restricted_contexts
from tests.fixtures.runs import AtOnce

TASK = RepeatedTokens(16, length=8)
PLAN = TrainPlan(steps=3, batch_size=4)
RECIPE = Recipe(TASK, full(16, TASK.n_ctx, n_heads=2, d_model=8, d_mlp=8), PLAN)


def test_contexts_are_the_tasks_own_or_powers_of_two_below_its_length() -> None:
    assert restricted_contexts(MarkovChain(spans=(1, 2, 2))) == (1, 3, 5)
    assert restricted_contexts(AssociativeRecall(4, 12)) == (1, 2, 4, 8)
    assert chosen_contexts(RECIPE, True) == (1, 2, 4, 8)
    assert chosen_contexts(RECIPE, (3,)) == (3,)
    assert chosen_contexts(RECIPE, False) == ()


def test_a_context_beyond_the_task_or_a_regression_is_refused() -> None:
    with pytest.raises(ValueError, match="a context is between 1 and the task's 11 positions, got 12"):
        chosen_contexts(RECIPE, (2, 12))
    task = SparseRegression(6, 3)
    made = Architecture({**full(3, 6).config, "d_vocab_out": 3})
    with pytest.raises(ValueError, match="SparseRegression is a regression: leave them out"):
        chosen_contexts(Recipe(task, made, PLAN), True)


def test_where_nobody_asks_a_task_that_names_contexts_has_baselines_and_another_has_none() -> None:
    chain = MarkovChain(spans=(1, 2))
    assert chosen_contexts(Recipe(chain, full(24, chain.n_ctx), PLAN), None) == (1, 3)
    assert chosen_contexts(RECIPE, None) == ()


class Counted(AtOnce):
    """Keeps the number of what was submitted to it."""

    number = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        self.number += 1
        return super().submit(fn, *args, **kwargs)


@pytest.mark.parametrize(("at_once", "submitted"), [(1, 1), (2, 2), (9, 3)])
def test_no_more_baselines_are_trained_at_once_than_asked_for(at_once: int, submitted: int, tmp_path: Path) -> None:
    pool = Counted()
    with baselines_beside(RECIPE, tmp_path, (1, 2, 5), pool, at_once):
        pass
    trained = sorted(path.parents[1].name for path in tmp_path.glob("restricted/*/checkpoints/step-00000003.*"))
    assert (pool.number, trained) == (submitted, ["1", "2", "5"])
