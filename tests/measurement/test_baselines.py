"""Restricted-context models as references: which are trained, and what they say at which position."""

import dataclasses
from pathlib import Path

import pytest
import torch

from stagewise import models
from stagewise.architecture import Architecture, full
from stagewise.checkpoints.series import open_series
from stagewise.measurement.baselines import (
    chosen_contexts,
    restricted_contexts,
    restricted_log_probs,
    restricted_recipe,
    train_restricted,
    with_baselines,
)
from stagewise.recipe import Recipe, TrainPlan
from stagewise.tasks import AssociativeRecall, MarkovChain, RepeatedTokens, SparseRegression

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


@pytest.mark.parametrize("context", [2, 5])
def test_a_baseline_says_what_it_says_of_the_last_tokens_alone(context: int, tmp_path: Path) -> None:
    series = open_series(train_restricted(restricted_recipe(RECIPE, context), tmp_path / "run"))
    batch = dataclasses.replace(TASK.probe_batch(3, seed=0), references={})
    everywhere = dataclasses.replace(batch, scored=torch.ones_like(batch.scored))
    log_probs = restricted_log_probs(series, everywhere)
    model = models.build(series.architecture)
    models.load(model, series.weights(3))
    for query in range(TASK.n_ctx):
        start = max(0, query + 1 - context)
        alone, _ = models.clean_pass(model, batch.tokens[:, start : query + 1], hooks=())
        torch.testing.assert_close(log_probs[:, query], alone[:, -1], atol=1e-5, rtol=0)


def test_slices_of_the_batch_give_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    series = open_series(train_restricted(restricted_recipe(RECIPE, 2), tmp_path / "run"))
    batch = TASK.probe_batch(5, seed=0)
    whole = restricted_log_probs(series, batch)
    monkeypatch.setattr("stagewise.measurement.baselines.NUMBERS", 1)
    torch.testing.assert_close(restricted_log_probs(series, batch), whole, atol=1e-5, rtol=0)


def test_baselines_stand_before_the_references_with_their_context(tmp_path: Path) -> None:
    folder = train_restricted(restricted_recipe(RECIPE, 2), tmp_path / "run")
    batch = with_baselines(TASK.probe_batch(2, seed=0), {2: folder})
    assert next(iter(batch.references)) == "trained c=2"
    assert (batch.contexts, batch.nested) == ({"trained c=2": 2}, ())
