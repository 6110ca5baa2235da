"""Attention on one sequence: of a checkpoint in circuitsvis, and of each boundary of stages for the report."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stagewise import models
from stagewise.checkpoints.run_folder import EXAMPLE
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.findings import Stages
from stagewise.measurement.engine import measure
from stagewise.plot.maps import patterns
from stagewise.probe import pattern_hooks
from stagewise.probes import MeanPattern
from stagewise.reporting._html import write_text
from stagewise.reporting._viewer import EXAMPLE_VALUES, boundary_checkpoints, moved_most
from stagewise.table import head_label, heads_in
from stagewise.task import AbstractTask, Batch
from stagewise.tasks import RepeatedTokens

POSITIONS = 64
"""Positions of the sequence that are shown, from its start."""

DIGITS = 4
"""Digits of attention values as text."""


def show_attention(
    series: CheckpointSeries,
    step: int,
    layer: int,
    batch: Batch | None = None,
    *,
    sequence: int = 0,
    tokenizer: Any = None,
    vocabulary: Sequence[str] | None = None,
    device: str = "cpu",
) -> Any:
    """Return circuitsvis's view of a layer's attention at a step, which a notebook shows: its `RenderedHTML`.

    Only this checkpoint is read, and only this sequence goes through the model.

    Args:
        series: from any source.
        step: of the checkpoint.
        layer: counted from 0.
        batch: whose sequence is shown; None takes `RepeatedTokens` of the model's size.
        sequence: which one, counted from 0.
        tokenizer: of the model, to write tokens as text: anything with `decode`.
        vocabulary: the tokens as text, by number, where there is no tokenizer; without either, numbers are shown.
        device: where to run the model.

    Raises:
        ValueError: the series has no such step, the model no such layer, the batch no such sequence, or the
            vocabulary lacks a token.

    Source: circuitsvis, `attention.attention_heads`.
    """
    batch = RepeatedTokens.for_model(series.architecture).probe_batch(sequence + 1, seed=0) if batch is None else batch
    if not 0 <= layer < series.architecture.n_layers:
        raise ValueError(f"there is no layer {layer}: the model has {series.architecture.n_layers}, counted from 0")
    if not 0 <= sequence < len(batch):
        raise ValueError(f"there is no sequence {sequence}: the batch has {len(batch)}, counted from 0")
    if batch.tokens.is_floating_point():
        raise ValueError("show_attention shows tokens, and this batch holds vectors")
    model = series.model(step).to(device)
    tokens, hook = batch.tokens[sequence : sequence + 1], pattern_hooks(series.architecture)[layer]
    _, activations = models.clean_pass(model, tokens.to(device), [hook])
    # circuitsvis imports torch, which costs seconds where nothing else has: only who looks at attention pays them.
    from circuitsvis.attention import attention_heads

    pattern: list[Any] = activations[hook][0].cpu().double().numpy().round(DIGITS).tolist()
    names = [head_label(layer, head) for head in range(len(pattern))]
    return attention_heads(pattern, _as_text(tokens[0].tolist(), tokenizer, vocabulary), names)


def _as_text(tokens: Sequence[int], tokenizer: Any, vocabulary: Sequence[str] | None) -> list[str]:
    if tokenizer is not None:
        return [tokenizer.decode([token]) for token in tokens]
    if vocabulary is None:
        return [str(token) for token in tokens]
    if missing := sorted({token for token in tokens if token >= len(vocabulary)}):
        raise ValueError(f"the vocabulary has {len(vocabulary)} tokens, and the sequence holds token {missing[0]}")
    return [vocabulary[token] for token in tokens]


def write_example(
    folder: Path,
    series: CheckpointSeries,
    stages: Stages | None,
    task: AbstractTask | None = None,
    batch: Batch | None = None,
    device: str = "cpu",
) -> None:
    """Write the attention in one sequence, of the task, the batch or repeated tokens, of the heads that moved most."""
    if batch is None:
        task = task or RepeatedTokens.for_model(series.architecture)
        batch = task.probe_batch(1, seed=0)
    one = batch[:1]
    boundaries = boundary_checkpoints(series.steps, stages)
    steps = tuple(sorted({series.steps[0], *boundaries}))
    few = dataclasses.replace(series, steps=steps, source=series.source and series.source.only(steps))
    table = measure(few, [MeanPattern(POSITIONS)], one, device=device, resamples=0, progress=False)
    heads, maps = heads_in(table), np.stack([patterns(table, step, None) for step in steps])
    places = moved_most(maps[[0, -1]], EXAMPLE_VALUES // (maps[0, 0].size * len(boundaries)))
    (tokens,) = one.tokens[:, : maps.shape[-1]]
    ids = list(range(len(tokens))) if tokens.is_floating_point() else tokens.tolist()
    words = [str(each) for each in ids] if task is None or tokens.is_floating_point() else task.as_text(ids)
    rounded = maps[:, places].astype(float).round(DIGITS)
    page = {
        "tokens": words,
        "heads": [head_label(*heads[place]) for place in places],
        "attention": {str(step): rounded[steps.index(step)].tolist() for step in boundaries},
    }
    write_text(folder / EXAMPLE, json.dumps(page))
