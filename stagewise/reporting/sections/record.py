"""The sections on the record of a run: its checkpoints' faults, the loss of its training, its settings."""

import numpy as np

from stagewise import plot
from stagewise.reporting._figure import Plot
from stagewise.reporting._html import wording
from stagewise.reporting._measured import RECORDED, Measured
from stagewise.reporting._prose import html_table, settings_rows
from stagewise.reporting._section import Blocks, Section
from stagewise.words import count, written

DRAWN = 1500
"""Training steps that the curve goes through, spaced evenly on its axis."""


def _audit(measured: Measured) -> Blocks:
    """Return the faults that the audit found, if it found any, and how names were read where a part was ignored."""
    audit = measured.run.get("audit") or {}
    findings, names = audit.get("findings", []), [line.partition(" -> ")[::2] for line in audit.get("names", [])]
    read: Blocks = [html_table(["name", "read as"], names)] if names else []
    if not findings:
        return read
    rows = [[finding["kind"], ", ".join(map(written, finding["steps"])), finding["message"]] for finding in findings]
    return [
        f"<p><strong>The audit of the checkpoints found {count(len(rows), 'fault')}.</strong> "
        "The measurements below are of them as they are.</p>",
        html_table(["kind", "steps", "what was found"], rows),
        *read,
    ]


def _training(measured: Measured) -> Blocks:
    """Return the training loss, where the folder holds the metrics of training."""
    metrics = measured.metrics
    if metrics is None or metrics.empty:
        return []
    places = np.geomspace(1, len(metrics), min(DRAWN, len(metrics))).round().astype(int) - 1
    rows = metrics.iloc[np.unique(places)]
    note = "" if len(rows) == len(metrics) else f" {len(rows)} of {len(metrics)} updates are drawn."
    axes = plot.training_loss(rows, measured.stages)
    return [Plot("training-loss", {"": axes}, rows, wording("record", "loss") + note)]


def _was_trained_here(measured: Measured) -> bool:
    """Whether the record holds a plan of training, which checkpoints from elsewhere lack."""
    return "plan" in (measured.run.get("recipe") or {})


def _settings(measured: Measured) -> Blocks:
    """Return the name of the run, its recipe, seeds and versions, and what decided its measurement."""
    record = {name: value for name, value in measured.run.items() if name != RECORDED}
    decided = settings_rows(measured.provenance, "measured")
    rows = [["run", measured.table["run"].iloc[0]], *settings_rows(record), *decided]
    return [html_table(["setting", "value"], rows, "settings")]


AUDIT = Section("audit", "What is wrong with the checkpoints", _audit, applies=False, of_batch=False, folded=False)
TRAINING = Section("training", "Training loss", _training, applies=_was_trained_here)
SETTINGS = Section("settings", "Settings, versions, seeds", _settings, of_batch=False)
