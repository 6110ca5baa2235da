"""The exact reverse of training: the effect of a sample equals a replay in which its loss has another weight."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from stagewise import models
from stagewise.papers.adjoint import check_reversible, sample_effects, sample_losses
from stagewise.papers.samples import attention_score
from stagewise.papers.tasks import SparseRegression
from stagewise.plan import ClampHead
from stagewise.presets import recipe_for
from stagewise.recipe import Recipe
from stagewise.training import Training, prepare
from tests.fixtures.two_lags import TWO_LAGS

pytestmark = pytest.mark.usefixtures("unchecked")
EXACT = 1e-3
"""Relative distance of a derivative to the quotient of two replays, whose own error is that of a third derivative."""

OPTIMISERS: dict[str, dict[str, Any]] = {
    "sgd": {"optimiser": "sgd", "momentum": 0.9, "learning_rate": 0.05, "weight_decay": 0.01},
    "adam": {"optimiser": "adamw", "weight_decay": 0.0, "learning_rate": 0.01},
    "adamw": {"optimiser": "adamw", "weight_decay": 0.1, "learning_rate": 0.01},
}


def recipe_with(steps: int, **fields: Any) -> Recipe:
    how = {"clip": 0.3, "warmup": 5, "batch_size": 8, "save": None, "states": None, **fields}
    return dataclasses.replace(TWO_LAGS, plan=dataclasses.replace(TWO_LAGS.plan, steps=steps, **how))


def in_float64(recipe: Recipe, place: tuple[int, int] = (0, 0), weight: float = 1.0) -> Training:
    """A training in float64 in which one sample's loss has another weight."""
    training = prepare(recipe)
    model: Any = training.model
    model.double()

    def loss_at(step: int) -> Tensor:
        losses = sample_losses(training, models.parameters(training.model), training.batch_at(step))
        counts = torch.ones_like(losses)
        if step == place[0]:
            counts[place[1]] = weight
        return counts @ losses

    return training._replace(loss_at=loss_at)


def score_of(training: Training) -> Callable[[], Tensor]:
    batch = TWO_LAGS.task.sample(32, 99)
    return lambda: attention_score(training.model, batch, (0, 0), "near")


@pytest.mark.parametrize("name", OPTIMISERS)
def test_an_effect_is_the_slope_of_replays_with_the_samples_weight_changed(name: str) -> None:
    recipe = recipe_with(200, **OPTIMISERS[name])
    training = in_float64(recipe)
    effects = dict(sample_effects(training, 0, 0, 200, score_of(training)))
    for step, sample in ((0, 3), (57, 2), (199, 0)):
        scores = []
        for weight in (1.001, 0.999):
            replay = in_float64(recipe, (step, sample), weight)
            list(replay.steps(0, 200, []))
            scores.append(score_of(replay)().item())
        slope = (scores[0] - scores[1]) / 0.002
        assert effects[step][sample].item() == pytest.approx(slope, rel=EXACT)


def test_the_length_of_segments_and_the_first_step_told_change_no_effect() -> None:
    training = in_float64(recipe_with(20))
    whole = dict(sample_effects(training, 0, 0, 20, score_of(training)))
    training = in_float64(recipe_with(20))
    rest = dict(sample_effects(training, 0, 13, 20, score_of(training)))
    assert sorted(rest) == list(range(13, 20))
    for step, effects in rest.items():
        torch.testing.assert_close(effects, whole[step], rtol=1e-9, atol=0)


@pytest.mark.parametrize("recipe", [TWO_LAGS, recipe_for(SparseRegression)], ids=["tokens", "vectors"])
def test_the_losses_of_samples_add_up_to_the_loss_of_training(recipe: Recipe) -> None:
    training = prepare(recipe)
    losses = sample_losses(training, models.parameters(training.model), training.batch_at(3))
    assert losses.shape == (recipe.plan.batch_size,)
    torch.testing.assert_close(losses.sum(), training.loss_at(3))


def test_a_training_with_a_head_held_is_refused() -> None:
    held = recipe_with(20, clamps=(ClampHead(0, 0, start=4),))
    with pytest.raises(ValueError, match="no gradient goes back through this training"):
        check_reversible(prepare(held))
