"""Probing a model of GPT-2 small's shape, a bridge around transformers' own: stagewise over a plain script."""

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from bench.engine import CONTEXTS, EFFECTS, check, fresh_series, ours, probes_with
from bench.plain_probing import probe
from bench.timing import Pair, Row, Spent, Work, cpu_seconds, peak_memory, ratio, row, spent
from stagewise import models
from stagewise.analysis import analyse
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries, open_series
from stagewise.measurement.engine import measure
from stagewise.measurement.probe_batch import usable
from stagewise.probes import AttentionTo, HeadAttribution
from stagewise.table import select
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens

SEQUENCES = 4
TASK = RepeatedTokens(50257, length=16)
"""With half of it again, 23 positions."""

PYTHIA = 154
"""Checkpoints of each model of the suite."""

NAME = "GPT-2 small's shape"
PAIRS = 5
FURTHER = 4
"""Checkpoints beyond the first, which also pays for building the model."""


def exact() -> Iterator[Row]:
    """All default probes with all heads ablated, or estimated, and three restricted contexts; the sides in turn."""
    series, batch = _series(), _batch()
    plain = functools.partial(probe, models.build(series.architecture, 0), batch, CONTEXTS)
    ablated = ours(series, probes_with(series.architecture, batch, *EFFECTS), batch)
    estimated = ours(series, probes_with(series.architecture, batch, HeadAttribution(), EFFECTS[1]), batch)
    check(ablated(), plain())
    estimated()
    times = [[spent(side) for side in (plain, ablated, estimated)] for _ in range(PAIRS)]
    for name, side, goal in (("all heads ablated", 1, 2.5), ("HeadAttribution in place of ablations", 2, 25)):
        pairs = [Pair(each[0], each[side]) for each in times]
        yield ratio(f"{NAME}, {name}: plain script with all ablations over stagewise", pairs, goal, "higher")


def memory() -> Iterator[Row]:
    """What both processes hold at most, and stagewise's on four times the sequences."""
    lean, plain, larger = (peak_memory(side).peak for side in (_our_side, _plain_side, _larger_side))
    note = f"{lean / 1e6:.0f} to {plain / 1e6:.0f} MB in all"
    yield row(f"{NAME}: peak memory over the plain script's", [lean / plain], 1.0, note=note)
    note = f"{larger / 1e6:.0f} to {lean / 1e6:.0f} MB in all"
    yield row(f"{NAME}: peak memory on four times the sequences over this one", [larger / lean], 1.1, note=note)


def analysis() -> Iterator[Row]:
    """`analyse` on three checkpoints as it stands: all default probes, every head ablated, stages and report."""
    with tempfile.TemporaryDirectory() as folder:
        start = cpu_seconds()
        table = analyse(_series(0, 1, 2), folder, progress=False).table
        seconds = (cpu_seconds() - start) / 3
    ablated = table.query("probe == 'HeadAblation'")[["layer", "head"]].drop_duplicates()
    assert len(ablated) == 144
    hours = PYTHIA * seconds / 2 / 3600
    note = f"the {PYTHIA} checkpoints of Pythia-160m, of the same shape, on two cores: about {hours:.1f} hours"
    yield row(f"{NAME}, `analyse`: CPU seconds a checkpoint", [seconds], note=note)


def attention() -> Iterator[Row]:
    """`AttentionTo` alone at each further checkpoint of a folder, over a script of transformers alone."""
    from transformers import GPT2Config, GPT2LMHeadModel

    batch, sides = _batch(2), list[Pair]()
    plain = GPT2LMHeadModel(GPT2Config(attn_implementation="eager")).eval()
    with tempfile.TemporaryDirectory() as folder:
        for step in range(FURTHER + 1):
            GPT2LMHeadModel(GPT2Config()).save_pretrained(Path(folder, f"checkpoint-{step}"))
        series = open_series(folder)
        by_hand = functools.partial(_masses, plain, Path(folder), batch)
        table = measure(series, [AttentionTo(("induction",))], batch, progress=False)
        expected = select(table, "AttentionTo", "mass", step=FURTHER)["value"].to_numpy()
        assert np.allclose(expected, by_hand()[-1].flatten(), atol=1e-5)
        for _ in range(PAIRS):
            first, every = (
                spent(functools.partial(measure, each, [AttentionTo()], batch, progress=False))
                for each in (series[:1], series)
            )
            sides.append(Pair(Spent(every.cpu - first.cpu, every.wall - first.wall), spent(by_hand)))
    yield ratio(f"{NAME}, AttentionTo alone, a further checkpoint: stagewise over a plain script", sides, 1.3)


def _masses(plain: Any, folder: Path, batch: Batch) -> list[Tensor]:
    """Return the attention of each head on the induction relation's keys, at each checkpoint but the first."""
    found, relation, scored = list[Tensor](), batch.relations["induction"], batch.scored
    for step in range(1, FURTHER + 1):
        plain.load_state_dict(load_file(folder / f"checkpoint-{step}" / "model.safetensors"), strict=False)
        with torch.inference_mode():
            patterns = plain.transformer(batch.tokens, output_attentions=True).attentions
            on_keys = torch.stack([(pattern * relation[:, None]).sum(-1) for pattern in patterns], 1)
            means = (on_keys * scored[:, None, None]).sum(-1) / scored.sum(1)[:, None, None]
            found.append(means.mean(0))
    return found


ROWS = (exact, memory, analysis, attention)


def _series(*steps: int) -> CheckpointSeries:
    from transformers import GPT2Config

    return fresh_series(Architecture(GPT2Config().to_dict()), steps or (0,))


def _batch(times: int = 1) -> Batch:
    return usable(TASK.probe_batch(times * SEQUENCES, 0))


def _our_side(times: int = 1) -> Work:
    series, batch = _series(), _batch(times)
    probes = probes_with(series.architecture, batch, *EFFECTS)
    return ours(series, probes, batch)


def _larger_side() -> Work:
    return _our_side(4)


def _plain_side() -> Work:
    return functools.partial(probe, models.build(_series().architecture, 0), _batch(), CONTEXTS)
