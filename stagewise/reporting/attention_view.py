"""Attention on one sequence at each boundary of stages, for the report."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from stagewise.batch import Prompts
from stagewise.checkpoints.run_folder import EXAMPLE
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.findings import Stages
from stagewise.measurement.engine import measure
from stagewise.plot.maps import patterns
from stagewise.probes import MeanPattern
from stagewise.reporting._html import write_text
from stagewise.reporting._viewer import EXAMPLE_VALUES, boundary_checkpoints, moved_most
from stagewise.table import Head, head_label, heads_in
from stagewise.task import AbstractTask, Batch
from stagewise.tasks import RepeatedTokens

POSITIONS = 64
"""Positions of the sequence that are shown, from its start."""

DIGITS = 4
"""Digits of attention values as text."""


def write_example(
    folder: Path,
    series: CheckpointSeries,
    stages: Stages | None,
    task: AbstractTask | None = None,
    batch: Batch | None = None,
    device: str = "cpu",
) -> None:
    """Write the attention in one sequence, of the task, the batch or repeated tokens, of the heads that moved most.

    Beside a prompt of a behaviour stands the corrupted one.
    """
    if batch is None:
        task = task or RepeatedTokens.for_series(series)
        batch = task.probe_batch(1, seed=0)
    one = batch[:1]
    boundaries = boundary_checkpoints(series.steps, stages)
    steps = tuple(sorted({series.steps[0], *boundaries}))
    few = dataclasses.replace(series, steps=steps, source=series.source and series.source.only(steps))
    heads, maps = _maps(few, one, device)
    places = moved_most(maps[[0, -1]], EXAMPLE_VALUES // (maps[0, 0].size * len(boundaries)))

    def shown(one: Batch, maps: np.ndarray) -> dict[str, Any]:
        (tokens,) = one.tokens[:, : maps.shape[-1]]
        ids = list(range(len(tokens))) if tokens.is_floating_point() else tokens.tolist()
        words = [str(each) for each in ids] if task is None or tokens.is_floating_point() else task.as_text(ids)
        rounded = maps[:, places].astype(float).round(DIGITS)
        return {"tokens": words, "attention": {str(step): rounded[steps.index(step)].tolist() for step in boundaries}}

    page = {"heads": [head_label(*heads[place]) for place in places], **shown(one, maps)}
    if isinstance(one, Prompts) and (corrupted := one.others.get("corrupted")) is not None:
        page["corrupted"] = shown(corrupted, _maps(few, corrupted, device)[1])
    write_text(folder / EXAMPLE, json.dumps(page))


def _maps(series: CheckpointSeries, one: Batch, device: str) -> tuple[list[Head], np.ndarray]:
    """Return the heads, and their attention in a sequence at every step, [step, head, query, key]."""
    table = measure(series, [MeanPattern(POSITIONS)], one, device=device, resamples=0, progress=False)
    return heads_in(table), np.stack([patterns(table, step, None) for step in series.steps])
