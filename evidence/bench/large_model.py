"""Probing a model of GPT-2 small's shape, a bridge around transformers' own: stagewise over a plain script."""

import contextlib
import functools
import pkgutil
import tempfile
from collections.abc import Iterator
from typing import Any
from unittest import mock

from evidence.bench.engine import CONTEXTS, EFFECTS, check, fresh_series, ours, probes_with
from evidence.bench.plain_probing import probe
from evidence.bench.timing import Pair, Row, Work, cpu_seconds, peak_memory, ratio, row, spent
from stagewise import models
from stagewise.analysis import analyse
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import CheckpointSeries
from stagewise.measurement.probe_batch import usable
from stagewise.probes import HeadAttribution
from stagewise.task import Batch
from stagewise.tasks import RepeatedTokens

SEQUENCES = 4
TASK = RepeatedTokens(50257, length=16)
"""With half of it again, 23 positions."""

PYTHIA = 154
"""Checkpoints of each model of the suite."""

NAME = "GPT-2 small's shape"
PAIRS = 5

CHECK = "stagewise.models._huggingface.check_held"
"""Compares all weights of a model with those that were read."""


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
    checks: list[float] = []
    with tempfile.TemporaryDirectory() as folder, _timed(CHECK, checks):
        start = cpu_seconds()
        table = analyse(_series(0, 1, 2), folder, progress=False).table
        seconds = (cpu_seconds() - start) / 3
    ablated = table.query("probe == 'HeadAblation'")[["layer", "head"]].drop_duplicates()
    assert len(ablated) == 144
    hours = PYTHIA * seconds / 2 / 3600
    note = f"the {PYTHIA} checkpoints of Pythia-160m, of the same shape, on two cores: about {hours:.1f} hours"
    yield row(f"{NAME}, `analyse`: CPU seconds a checkpoint", [seconds], note=note)
    note = f"{1000 * sum(checks) / 3:.0f} ms a checkpoint"
    yield row(f"{NAME}: share of the check that weights are those read", [sum(checks) / 3 / seconds], 0.02, note=note)


ROWS = (exact, memory, analysis)


@contextlib.contextmanager
def _timed(name: str, seconds: list[float]) -> Iterator[None]:
    """Collect the CPU time of each call of a function."""
    work = pkgutil.resolve_name(name)

    def timed(*arguments: Any) -> None:
        seconds.append(spent(functools.partial(work, *arguments)).cpu)

    with mock.patch(name, timed):
        yield


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
