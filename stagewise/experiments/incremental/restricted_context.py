"""Separately trained restricted-context models, as references of a probe batch."""

import dataclasses
import math
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from stagewise import models
from stagewise.architecture import resized
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.recipe import Recipe
from stagewise.task import Batch
from stagewise.tasks.windows import Windows, windows
from stagewise.training import train

WINDOWS_A_SEQUENCE = 3
"""Windows in a batch, for each sequence in a batch of the full model."""


def restricted_recipe(recipe: Recipe, context: int) -> Recipe:
    """Return the recipe of a model of the same kind that sees the last `context` tokens only, positions from 0.

    It trains as long as the full model and at its rate: a baseline that has not passed all its own stages is none.

    Args:
        recipe: of the full model.
        context: number of tokens it sees.

    Source: Yüksel et al. (2026), arXiv:2602.19143, the restricted-context transformers of Figures 3 and 5.
    """
    task = Windows(recipe.task, context)
    plan = dataclasses.replace(
        recipe.plan, batch_size=WINDOWS_A_SEQUENCE * recipe.plan.batch_size, save=(0, recipe.plan.steps)
    )
    return Recipe(task, resized(recipe.architecture, context), plan)


def train_restricted(recipe: Recipe, folder: Path) -> Path:
    """Train one without a bar; return its folder."""
    train(recipe, folder, progress=False)
    return folder


def restricted_log_probs(series: CheckpointSeries, batch: Batch) -> Float[Tensor, "batch pos token"]:
    """Return what the last checkpoint of a restricted-context model says at each scored position, in nats.

    Positions that are not scored hold the uniform law.
    """
    context, d_vocab = series.architecture.config["n_ctx"], series.architecture.config["d_vocab"]
    model = models.build(series.architecture)
    models.load(model, series.weights(series.steps[-1]))
    last, _ = models.clean_pass(model, windows(batch, context), hooks=())
    log_probs = torch.full((*batch.tokens.shape, d_vocab), -math.log(d_vocab))
    log_probs[batch.scored] = last[:, -1]
    return log_probs


def with_baselines(batch: Batch, folders: dict[int, Path]) -> Batch:
    """Return the batch with the trained baselines, by context, among its references as "trained c=2", ..."""
    contexts = {f"trained c={c}": c for c in folders}
    trained = {name: restricted_log_probs(open_series(folders[c]), batch) for name, c in contexts.items()}
    return batch.with_references(trained, contexts)
