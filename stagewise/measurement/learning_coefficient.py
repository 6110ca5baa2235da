"""The local learning coefficient of the checkpoints of a run, of all weights and of single heads."""

import math
from collections.abc import Mapping

import pandas as pd
import torch
from torch import Tensor
from tqdm.auto import tqdm

from stagewise import models
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.loss import training_loss
from stagewise.measurement.inputs import check_batch, unmeasured
from stagewise.measurement.langevin import DEFAULT, Coefficient, Loss, Sampler, local_learning_coefficient
from stagewise.measurement.printed_table import Table
from stagewise.measurement.rows import checkpoint_labels, tidy_columns
from stagewise.models import Model
from stagewise.models.restrictions import of_head, trained
from stagewise.table import Columns, Quantity, declare
from stagewise.task import Batch

LABEL = "local learning coefficient"
QUANTITIES = {
    "LearningCoefficient": {
        "whole_model": Quantity(LABEL),
        "of_head": Quantity(f"{LABEL} of the head's weights"),
        "drift": Quantity(f"change of the {LABEL} within the chains"),
    },
}
"""What `learning_coefficients` measures, by the name that stands in the column `probe`."""


def learning_coefficients(
    series: CheckpointSeries,
    batch: Batch,
    sampler: Sampler = DEFAULT,
    *,
    heads: bool = False,
    device: str = "cpu",
    progress: bool = True,
) -> pd.DataFrame:
    """Estimate the local learning coefficient of every checkpoint, as a tidy table.

    `whole_model`, and with `heads` also `of_head` by layer and head: of the loss on the batch's scored predictions, the
    samples, when all trained weights are sampled, or one head's with all others as they are. Intervals are over chains.
    `drift` says how far the chains of the whole model still move: see `Coefficient`. A checkpoint takes chains *
    (burn_in + draws) steps of training, and as many for each head: choose checkpoints, as by `series[::8]`. Compare
    what was sampled alike: the height depends on the sampler and on the batch.

    Args:
        series: the checkpoints.
        batch: the fixed probe batch; more of it stands better for the loss in general.
        sampler: how weights are sampled.
        heads: whether to sample each head by itself too.
        device: where to run the model.
        progress: show a bar.

    Raises:
        ImportError: devinterp is not installed.
        ValueError: a chain diverged, or heads of a bridge around a Hugging Face model.

    Source: `local_learning_coefficient`.
    """
    check_batch(batch, series.architecture, (), f"the series {series.name}")
    model, batch = models.build(series.architecture, device=device), batch.to(device)
    n, architecture = int(batch.scored.sum()), series.architecture
    loss, blocks = _loss_of(model, batch, sampler), list[Columns]()
    chosen = [(i, j) for i in range(architecture.n_layers) for j in range(architecture.n_heads)] if heads else []
    for layer, head in chosen[:1]:
        of_head(model, layer, head)  # raises where heads are not told apart, before anything is sampled
    for step, state in tqdm(series, disable=not progress, desc=f"{series.name}: sampled", unit="checkpoint"):
        if unmeasured(state, f"step {step} of {series.name!r}") is not None:
            continue
        models.load(model, state)
        named = trained(model)
        labels = {**checkpoint_labels(series, step), "probe": "LearningCoefficient"}
        whole = local_learning_coefficient(loss, list(named.values()), n, sampler)
        blocks += [
            {**labels, "quantity": "whole_model", **_row(whole)},
            {**labels, "quantity": "drift", "value": [whole.drift]},
        ]
        for layer, head in chosen:
            masks = {name: mask for name, mask in of_head(model, layer, head).items() if name in named}
            one = local_learning_coefficient(loss, [named[name] for name in masks], n, sampler, list(masks.values()))
            blocks.append({**labels, "quantity": "of_head", "layer": layer, "head": head, **_row(one)})
    table = Table(tidy_columns(blocks))
    declare(table, QUANTITIES)
    return table


def _row(found: Coefficient) -> Mapping[str, list[float]]:
    lo, hi = found.interval or (math.nan, math.nan)
    return {"value": [found.mean], "lo": [lo], "hi": [hi], "n": [len(found.chains)]}


def _loss_of(model: Model, batch: Batch, sampler: Sampler) -> Loss:
    """Return the loss of a model on a batch, or on some of its sequences."""

    def loss(draw: torch.Generator | None) -> Tensor:
        part = batch
        if draw is not None and sampler.sequences is not None and sampler.sequences < len(batch):
            part = batch[torch.randperm(len(batch), generator=draw)[: sampler.sequences].to(batch.tokens.device)]
        return training_loss(model(part.tokens)[part.scored], part.targets[part.scored])

    return loss
