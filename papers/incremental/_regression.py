"""The minimal model on the regression variant: plain SGD on sampled contexts, beside the flow of its theory."""

import dataclasses
from pathlib import Path
from typing import Any

import pandas as pd

from stagewise.checkpoints.run_folder import TABLE
from stagewise.measurement.engine import measure
from stagewise.papers.position_heads import position_heads
from stagewise.papers.tasks import MarkovRegression
from stagewise.papers.theory.tensor_factorisation import TensorFactorisation
from stagewise.presets import recipe_for
from stagewise.probes import AttentionTo, Loss, ValueAlignment
from stagewise.recipe import Recipe, TrainPlan
from stagewise.schedules import linear, logarithmic
from stagewise.training import train

_PROBE_CONTEXTS = 4000
"""Contexts in the probe batch: the loss is then known to about 2 %."""


def sgd(steps: int = 6000, save_every: int = 100, batch_size: int = 256, learning_rate: float = 0.05) -> TrainPlan:
    """Return plain SGD on fresh contexts; time in the gradient flow is learning_rate * step.

    Saved are step 0, log-spaced first ones, every `save_every`-th and the last.
    """
    save = linear(save_every, steps) | logarithmic(8, min(save_every, steps))
    sizes: Any = {"steps": steps, "batch_size": batch_size, "learning_rate": learning_rate, "save": save}
    return dataclasses.replace(recipe_for(MarkovRegression).plan, **sizes)


def theory(task: MarkovRegression, n_heads: int = 3, noise: float = 1e-3, seed: int = 2) -> TensorFactorisation:
    """Return the gradient flow of the heads on the task: the logit flow, which gradient descent on a_h follows.

    Args:
        task: the regression that the heads learn.
        n_heads: number of heads.
        noise: standard deviation of the initial logits.
        seed: draws them. With that of the default all three groups of the default task are learned in 4000 steps of
            the default plan; other draws take up to twice as long for the third.
    """
    return TensorFactorisation(task.strengths, task.spans, task.n_lags, n_heads, "logit", noise, seed)


def regression_recipe(task: MarkovRegression, theory: TensorFactorisation, plan: TrainPlan | None = None) -> Recipe:
    """Return heads that attend by position alone and start from the theory's logits, trained on the task.

    Args:
        task: the regression to learn.
        theory: whose initial logits the heads start from; heads that start alike part by sampling noise alone.
        plan: how to train; None for `sgd()`.

    Raises:
        ValueError: the theory has another number of positions than the task has lags.
    """
    if theory.n_positions != task.n_lags:
        raise ValueError(f"the task has {task.n_lags} lags (n_lags), the theory {theory.n_positions}: make them equal")
    # The theory counts from the most recent lag on, positions end with it.
    logits = tuple(tuple(row) for row in theory.initial_logits()[:, ::-1].tolist())
    return Recipe(task, position_heads(task.dim, task.n_lags, theory.n_heads, logits), plan or sgd())


def train_and_measure(recipe: Recipe, folder: str | Path, *, progress: bool = True) -> pd.DataFrame:
    """Train the heads in a run folder and return the table of all saved steps, on one probe batch that never trains.

    It has `Loss squared_error` with its interval, `AttentionTo mass` and `ValueAlignment projection`: rows that
    `solve(theory, steps, learning_rate)` has too, to overlay.

    Args:
        recipe: from `regression_recipe`.
        folder: the run folder; what is there of the same recipe is continued.
        progress: show a bar.

    Raises:
        ValueError: the folder holds another run.
        FloatingPointError: the loss is not finite: the learning rate is too large.
    """
    task = recipe.task
    assert isinstance(task, MarkovRegression)
    series = train(recipe, folder, progress=progress)
    batch = task.probe_batch(_PROBE_CONTEXTS, recipe.plan.seeds.evaluation)
    probes = [Loss(), AttentionTo(), ValueAlignment(task.value_features())]
    return measure(series, probes, batch, save=Path(folder) / TABLE, progress=progress)
