"""The local learning coefficient of the checkpoints of a run, of all weights and of single heads."""

import concurrent.futures
import math
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
from tqdm.auto import tqdm

from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement._langevin import DEFAULT, Coefficient, Sampler
from stagewise.measurement._rows import checkpoint_labels, measured_table
from stagewise.measurement._sampling import Sampling
from stagewise.table import Columns, Quantity
from stagewise.task import Batch

_LABEL = "local learning coefficient"
_QUANTITIES = {
    "LearningCoefficient": {
        "whole_model": Quantity(_LABEL),
        "of_head": Quantity(f"{_LABEL} of the head's weights"),
        "drift": Quantity(f"change of the {_LABEL} within the chains"),
        "drift_of_head": Quantity(f"change of the {_LABEL} of the head's weights within the chains"),
    }
}
"""Quantities of `measure_learning_coefficients`, by the name that stands in the column `probe`."""


def measure_learning_coefficients(
    series: CheckpointSeries,
    batch: Batch,
    sampler: Sampler = DEFAULT,
    *,
    heads: bool = False,
    folder: str | Path | None = None,
    device: str = "cpu",
    progress: bool = True,
    executor: concurrent.futures.Executor | None = None,
) -> pd.DataFrame:
    """Estimate the local learning coefficient of every checkpoint, as a tidy table.

    `whole_model`, and with `heads` also `of_head` by layer and head: of the loss on the batch's scored predictions, the
    samples, when all trained weights are sampled, or one head's with all others as they are. Intervals are over chains.
    `drift` and `drift_of_head` say how far the chains still move: see `Coefficient`. A checkpoint takes chains *
    (burn_in + draws) steps of training, and as many for each head: choose checkpoints, as by `series[::8]`. Compare
    only coefficients that were sampled alike: the height depends on the sampler and on the batch.

    Args:
        series: the checkpoints.
        batch: the fixed probe batch; more of it stands better for the loss in general.
        sampler: how weights are sampled.
        heads: whether to sample each head by itself too.
        folder: where to keep each coefficient, from which an interrupted sampling resumes; those of another batch or
            sampler are not reused.
        device: where to run the model.
        progress: show a bar of the updates.
        executor: whose processes sample a checkpoint each, and see the folder; None samples here. The numbers are the
            same.

    Raises:
        ImportError: devinterp is not installed.
        ValueError: a chain diverged, or heads of a bridge around a Hugging Face model.

    Source: `local_learning_coefficient`.
    """
    sampling = Sampling(series, batch, sampler, heads, None if folder is None else Path(folder), device)
    blocks = list[Columns]()
    total, words = len(series) * len(sampling.parts) * sampling.updates, f"{series.name}: sampled"
    with sampling.held(), tqdm(total=total, disable=not progress, desc=words, unit="update") as bar:
        for step, coefficients in sampling.all_coefficients(bar, executor):
            labels = {**checkpoint_labels(series, step), "probe": "LearningCoefficient"}
            for part, found in coefficients:
                of = {"layer": part[0], "head": part[1]} if part else {}
                names = ("of_head", "drift_of_head") if part else ("whole_model", "drift")
                blocks.append({**labels, **of, "quantity": names[0], **_row(found)})
                blocks.append({**labels, **of, "quantity": names[1], "value": [found.drift]})
    if not blocks:
        raise ValueError(f"all checkpoints of {series.name!r} hold nan or infinity: there is nothing to sample")
    return measured_table(blocks, _QUANTITIES)


def _row(found: Coefficient) -> Mapping[str, list[float]]:
    lo, hi = found.interval or (math.nan, math.nan)
    return {"value": [found.mean], "lo": [lo], "hi": [hi], "n": [len(found.chains)]}
