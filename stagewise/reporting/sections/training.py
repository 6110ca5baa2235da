"""The section on the loss of the training batches."""

import numpy as np

from stagewise import plot
from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.section import Blocks, Section

DRAWN = 1500
"""Training steps that the curve goes through, spaced evenly on its axis."""

TRAINING = "Loss on each training batch, before its update: look for the same plateaus, without any probe."


def _training_section(measured: Measured) -> Blocks:
    """Return the training loss, where the folder holds the metrics of training."""
    metrics = measured.metrics
    if metrics is None or metrics.empty:
        return []
    places = np.geomspace(1, len(metrics), min(DRAWN, len(metrics))).round().astype(int) - 1
    rows = metrics.iloc[np.unique(places)]
    note = "" if len(rows) == len(metrics) else f" {len(rows)} of {len(metrics)} steps are drawn."
    return [Plot("training-loss", {"": plot.training_loss(rows, measured.stages)}, rows, TRAINING + note)]


def _was_trained_here(measured: Measured) -> bool:
    """Whether the record holds a plan of training, which checkpoints from elsewhere lack."""
    return "plan" in (measured.run.get("recipe") or {})


SECTION = Section("training", "Training loss", _training_section, applies=_was_trained_here)
