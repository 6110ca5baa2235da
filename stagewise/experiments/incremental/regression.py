"""The minimal model on the regression variant: plain SGD on sampled contexts, measured as it goes."""

import dataclasses

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn
from tqdm.auto import tqdm

from stagewise.measurement.rows import bootstrap_weights, rows
from stagewise.probe import Reading
from stagewise.schedule import linear, logarithmic
from stagewise.table import tidy
from stagewise.task import EVALUATION, TRAINING, derive_seed
from stagewise.tasks.markov_regression import MarkovRegression, Regression
from stagewise.theory.tensor_factorisation import TensorFactorisation, half_times

PROBE_CONTEXTS = 4000
"""Contexts in the probe batch: the loss is then known to about 2 %."""

RESAMPLES = 200


class PositionHeads(nn.Module):
    """Heads that attend by position alone: y = sum_h V_h sum_i softmax(a_h)_i X_i.

    The minimal architecture at the last query, with the part of its scores that depends on positions; on white inputs
    the rest has no gradient on average. V_h starts at zero.

    Args:
        logits: a_h at the start.
        dim: size of the vectors.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Proposition 1.
    """

    def __init__(self, logits: Float[Tensor, "head lag"], dim: int) -> None:
        """Start from the given logits and from V_h = 0."""
        super().__init__()
        self.logits = nn.Parameter(logits.clone())
        self.values = nn.Parameter(torch.zeros(len(logits), dim, dim, dtype=logits.dtype))

    def forward(self, inputs: Float[Tensor, "batch lag dim"]) -> Float[Tensor, "batch dim"]:
        """Predict the vector after each context."""
        read = torch.einsum("hl,nli->nhi", self.logits.softmax(-1), inputs)
        return torch.einsum("hoi,nhi->no", self.values, read)


@dataclasses.dataclass(frozen=True)
class RegressionPlan:
    """How the heads train: plain SGD on fresh contexts, L = 1/2 |y - prediction|^2 averaged over the batch.

    Time in the gradient flow is learning_rate * step.

    Raises:
        ValueError: a parameter is not positive.
    """

    steps: int = 6000
    batch_size: int = 256
    learning_rate: float = 0.05
    save_every: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "learning_rate", "save_every"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")

    @property
    def saved_steps(self) -> list[int]:
        """Step 0, log-spaced first ones, every `save_every`-th and the last."""
        return sorted(
            linear(self.save_every, self.steps) | logarithmic(8, min(self.save_every, self.steps)) | {self.steps}
        )


def theory(task: MarkovRegression, n_heads: int = 3, noise: float = 1e-3, seed: int = 2) -> TensorFactorisation:
    """Return the gradient flow of the heads on the task: the logit flow, which gradient descent on a_h follows.

    Args:
        task: what the heads learn.
        n_heads: number of heads.
        noise: standard deviation of the initial logits.
        seed: draws them. With that of the default all three groups of the default task are learnt in 4000 steps of
            the default plan; other draws take up to twice as long for the third.
    """
    return TensorFactorisation(task.strengths, task.spans, task.n_lags, n_heads, "logit", noise, seed)


def stage_steps(theory: TensorFactorisation, plan: RegressionPlan) -> tuple[float, ...]:
    """Return the optimiser steps at which the theory has each group's part of the loss halved; inf for never."""
    until = plan.learning_rate * plan.steps
    return tuple(time / plan.learning_rate for time in half_times(theory, until))


def half_squared_error(
    prediction: Float[Tensor, "batch dim"], targets: Float[Tensor, "batch dim"]
) -> Float[Tensor, " batch"]:
    """Return 1/2 |y - prediction|^2 of each context."""
    return 0.5 * (targets - prediction).square().sum(-1)


def train_and_measure(
    task: MarkovRegression,
    theory: TensorFactorisation,
    plan: RegressionPlan = RegressionPlan(),
    *,
    run: str = "regression",
    progress: bool = True,
) -> pd.DataFrame:
    """Train the heads by SGD and return the table of all saved steps, on one probe batch that never trains.

    It has `Loss squared_error` with its interval, `AttentionTo mass` and `ValueAlignment projection`: rows that
    `predict(theory, steps, plan.learning_rate)` has too, to overlay.

    Args:
        task: what to learn.
        theory: whose initial logits the heads start from; heads that start alike part by sampling noise alone.
        plan: how to train.
        run: what the run is called in the table.
        progress: show a bar.

    Raises:
        ValueError: the theory has another number of positions than the task has lags.
        FloatingPointError: the loss is not finite: the learning rate is too large.
    """
    if theory.n_positions != task.n_lags:
        raise ValueError(f"the task has {task.n_lags} lags (n_lags), the theory {theory.n_positions}: make them equal")
    heads = PositionHeads(torch.from_numpy(theory.initial_logits()).float(), task.dim)
    optimiser = torch.optim.SGD(heads.parameters(), plan.learning_rate)
    probe = task.sample(PROBE_CONTEXTS, derive_seed(plan.seed, EVALUATION))
    saves, frames = set(plan.saved_steps), []
    for step in tqdm(range(plan.steps + 1), disable=not progress, desc=run, unit="step"):
        if step in saves:
            frames += [frame.assign(run=run, step=step) for frame in _measured(heads, task, probe)]
        if step == plan.steps:
            break
        batch = task.sample(plan.batch_size, derive_seed(plan.seed, TRAINING, step))
        loss = half_squared_error(heads(batch.inputs), batch.targets).mean()
        if not loss.isfinite():
            raise FloatingPointError(f"the loss is {loss.item()} at step {step}; lower the learning rate")
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return tidy(frames)


@torch.no_grad()
def _measured(heads: PositionHeads, task: MarkovRegression, probe: Regression) -> list[pd.DataFrame]:
    groups = range(1, len(task.spans) + 1)
    labels = {"relation": [f"I({k})" for k in groups], "feature": [f"A*_{k}" for k in groups]}
    attention = heads.logits.softmax(-1)[None]
    masses = torch.stack([attention[..., lags.start - 1 : lags.stop - 1].sum(-1) for lags in task.groups], -1)
    features = task.feature_matrices()
    projections = torch.einsum("hoi,foi->hf", heads.values, features) / features.square().sum((1, 2))
    loss = half_squared_error(heads(probe.inputs), probe.targets)
    weights = bootstrap_weights(len(loss), RESAMPLES)
    readings = {
        "Loss": Reading("batch", loss, "squared_error"),
        "AttentionTo": Reading("layer head relation", masses, "mass", labels),
        "ValueAlignment": Reading("layer head feature", projections[None], "projection", labels),
    }
    return [rows(reading, weights).assign(probe=name) for name, reading in readings.items()]
