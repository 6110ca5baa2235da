"""Restricted-context models as references: what they say at which position."""

import dataclasses
from pathlib import Path

import pytest
import torch

from stagewise import models
from stagewise.architectures import full
from stagewise.checkpoints.series import open_series
from stagewise.measurement._baselines import _restricted_log_probs, with_baselines
from stagewise.recipe import Recipe, TrainPlan
from stagewise.restricted_training import _train_restricted
from stagewise.tasks import RepeatedTokens
from stagewise.tasks.windows import restricted_recipe

TASK = RepeatedTokens(16, length=8)
PLAN = TrainPlan(steps=3, batch_size=4)
RECIPE = Recipe(TASK, full(16, TASK.n_ctx, n_heads=2, d_model=8, d_mlp=8), PLAN)


@pytest.mark.parametrize("context", [2, 5])
def test_a_baseline_says_what_it_says_of_the_last_tokens_alone(context: int, tmp_path: Path) -> None:
    series = open_series(_train_restricted(restricted_recipe(RECIPE, context), tmp_path / "run"))
    batch = dataclasses.replace(TASK.probe_batch(3, seed=0), references={})
    everywhere = dataclasses.replace(batch, scored=torch.ones_like(batch.scored))
    log_probs = _restricted_log_probs(series, everywhere)
    model = models.build(series.architecture)
    models.load(model, series.weights(3))
    for query in range(TASK.n_ctx):
        start = max(0, query + 1 - context)
        alone, _ = models.clean_pass(model, batch.tokens[:, start : query + 1], hooks=())
        torch.testing.assert_close(log_probs[:, query], alone[:, -1], atol=1e-5, rtol=0)


def test_slices_of_the_batch_give_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    series = open_series(_train_restricted(restricted_recipe(RECIPE, 2), tmp_path / "run"))
    batch = TASK.probe_batch(5, seed=0)
    whole = _restricted_log_probs(series, batch)
    monkeypatch.setattr("stagewise.measurement._baselines._NUMBERS", 1)
    torch.testing.assert_close(_restricted_log_probs(series, batch), whole, atol=1e-5, rtol=0)


def test_baselines_stand_before_the_references_with_their_context(tmp_path: Path) -> None:
    folder = _train_restricted(restricted_recipe(RECIPE, 2), tmp_path / "run")
    batch = with_baselines(TASK.probe_batch(2, seed=0), {2: folder})
    assert next(iter(batch.references)) == "trained c=2"
    assert (batch.contexts, batch.nested) == ({"trained c=2": 2}, ())
