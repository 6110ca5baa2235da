"""Reports of measured folders of any size: time, page and memory, how they grow, and what a command costs to start.

The folders are made up, and written by what writes a measurement. torch is imported where they are, so that a process
that reports one does not hold it.
"""

import functools
import itertools
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from evidence.bench.timing import Row, Spent, Work, cpu_seconds, peak_memory, peak_of_command, row, spent

POSITIONS, NEAR, SEQUENCES, RESAMPLES, LAST = 48, 16, 8, 200, 20_000
RELATIONS = ["previous token", "induction", "current token"]

LINEAR, FLAT = 1.05, 1.1

LARGE = (200, 12, 12)
"""Checkpoints, layers and heads a layer of a folder whose report must stay small."""

CHECKPOINTS = (12, 50, 200, 400)
HEADS = (8, 32, 96, 384)
RUNS = 5

COMMAND = (sys.executable, "-m", "stagewise")


def growth_in_checkpoints() -> Iterator[Row]:
    """Time and memory of a report of eight heads, from 12 to 400 checkpoints."""
    with tempfile.TemporaryDirectory() as scratch:
        folders = [measured_folder(Path(scratch, str(n)), n, 2, 4) for n in CHECKPOINTS]
        yield _exponent("exponent of reporting time in checkpoints, 12 to 400", CHECKPOINTS, folders)
        peaks = [peak_memory(functools.partial(_side, folder)).peak for folder in (folders[0], folders[-1])]
        note = f"{peaks[0] / 1e6:.0f} to {peaks[1] / 1e6:.0f} MB"
        yield row("memory of reporting, 400 checkpoints over 12", [peaks[1] / peaks[0]], FLAT, note=note)


def growth_in_heads() -> Iterator[Row]:
    """Time of a report of 50 checkpoints, from 8 to 384 heads."""
    with tempfile.TemporaryDirectory() as scratch:
        folders = [measured_folder(Path(scratch, str(n)), 50, n // 4, 4) for n in HEADS]
        yield _exponent("exponent of reporting time in heads, 8 to 384", HEADS, folders)


def large_report() -> Iterator[Row]:
    """Time, page and memory of the report of 200 checkpoints and 144 heads."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = measured_folder(Path(scratch), *LARGE)
        times = [spent(functools.partial(_report, folder)) for _ in range(2)]
        cpu = ", ".join(f"{each.cpu:.0f}" for each in times)
        name = "report of 200 checkpoints x 144 heads"
        yield row(f"{name}: wall seconds", [each.wall for each in times], 60, note=f"CPU {cpu} s")
        yield row(f"{name}: page, MB", [(folder / "report.html").stat().st_size / 1e6], 8)
        (folder / "tables" / "stages.json").unlink()
        peak = peak_of_command(*COMMAND, "report", str(folder))
        yield row(f"{name}: memory of all processes, GB", [peak / 1e9], 1.5)


def commands() -> Iterator[Row]:
    """CPU seconds until a command has printed its help, or the stages that a folder holds."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = measured_folder(Path(scratch), 12, 2, 4)
        for name, arguments, goal in (("--help", ("--help",), 0.4), ("stages", ("stages", str(folder)), None)):
            times = [spent(functools.partial(_command, *arguments)) for _ in range(RUNS)]
            yield row(f"stagewise {name}: CPU seconds", [each.cpu for each in times], goal)


ROWS = (growth_in_checkpoints, growth_in_heads, large_report, commands)


def _command(*arguments: str) -> None:
    subprocess.run([*COMMAND, *arguments], check=True, stdout=subprocess.DEVNULL)


def _report(folder: Path) -> None:
    """Find the stages and write the page, in a process of its own."""
    (folder / "tables" / "stages.json").unlink(missing_ok=True)
    _command("report", str(folder))


def _side(folder: Path) -> Work:
    from stagewise.reporting.page import report

    (folder / "tables" / "stages.json").unlink(missing_ok=True)
    return functools.partial(report, folder)


def _exponent(name: str, sizes: Sequence[int], folders: Sequence[Path]) -> Row:
    """Return the slope of the logarithm of CPU time, from the first to the last size; least and largest of its parts.

    What a report costs whatever its size is taken off: the same command on nothing but an import.
    """
    start = cpu_seconds()
    subprocess.run([sys.executable, "-c", "import stagewise.reporting.page"], check=True)
    fixed = cpu_seconds() - start
    times = [min(_cpu(folder) for _ in range(2)) for folder in folders]
    slopes = [_slope(sizes[i], sizes[i + 1], times[i] - fixed, times[i + 1] - fixed) for i in range(len(sizes) - 1)]
    note = "CPU " + ", ".join(f"{seconds:.1f}" for seconds in times) + f" s, import {fixed:.1f} s"
    value = _slope(sizes[0], sizes[-1], times[0] - fixed, times[-1] - fixed)
    return Row(name, value, min(slopes), max(slopes), LINEAR, note=note)


def _cpu(folder: Path) -> float:
    timed: Spent = spent(functools.partial(_report, folder))
    return timed.cpu


def _slope(small: int, large: int, before: float, after: float) -> float:
    return math.log(after / before) / math.log(large / small)


def measured_folder(folder: Path, checkpoints: int, layers: int, heads: int) -> Path:
    """Write the folder of a measurement of a made-up model by what writes a real one; every fifth head learns."""
    from stagewise import probes
    from stagewise.checkpoints.run_folder import ANALYSIS, TABLE, write, write_json
    from stagewise.measurement._earlier import join_into
    from stagewise.measurement._rows import bootstrap_weights, rows
    from stagewise.table import tidy

    weights, known = bootstrap_weights(SEQUENCES, RESAMPLES), vars(probes)
    parts, names = [], set()
    for step in _steps(checkpoints):
        frames = []
        for probe, reading in _readings(step, layers, heads):
            declared = known[probe].quantities.get(reading.quantity)
            frames.append(rows(reading, weights, declared).assign(run="made up", step=step, probe=probe))
            names.add(probe)
        save = functools.partial(tidy(frames).to_parquet, index=False)
        parts.append(write(folder / "parts" / f"step-{step:08d}.parquet", save))
    quantities = {name: dict(known[name].quantities) for name in names}
    write(folder / TABLE, lambda partial: join_into(parts, partial, quantities))
    config = {"n_layers": layers, "n_heads": heads, "d_model": 64 * heads, "n_ctx": POSITIONS}
    batch: dict[str, Any] = {"relations": {}, "size": [], "first_query": 0, "references": []}
    recipe = {"architecture": {"config": config}, "task": {"type": "RepeatedTokens"}}
    write_json(folder / ANALYSIS, {"recipe": recipe, "batch": batch})
    return folder


def _steps(checkpoints: int) -> list[int]:
    spaced = (round(LAST ** (i / (checkpoints - 2))) for i in range(checkpoints - 1))
    steps = sorted({0, *spaced})
    free = (step for step in itertools.count(2) if step not in steps)
    return sorted([*steps, *itertools.islice(free, checkpoints - len(steps))])


def _readings(step: int, layers: int, heads: int) -> Iterator[tuple[str, Any]]:
    """Yield the probes and readings of a checkpoint: what default probes measure on repeated tokens."""
    import torch

    from stagewise.probe import Reading

    generator = torch.Generator().manual_seed(step)

    def noisy(*shape: int) -> torch.Tensor:
        return 0.02 * torch.rand((SEQUENCES, *shape), generator=generator)

    order = torch.arange(layers * heads).reshape(layers, heads)
    began = 10 ** (1 + 2.5 * (order * 37 % 101) / 101)
    learned = torch.where(order % 5 == 0, 1.0, 0.05) / (1 + (began / max(step, 0.5)) ** 4)
    head = learned + noisy(layers, heads)
    mass = torch.stack([0.8 * head, 0.6 * learned + noisy(layers, heads), 0.1 + noisy(layers, heads)], -1)
    whole = 1 / (1 + (300 / max(step, 0.5)) ** 2) + noisy()
    towards = torch.linspace(0, 3, POSITIONS) * learned[..., None]
    offsets = torch.softmax(towards + noisy(layers, heads, POSITIONS), -1)
    scores = torch.rand(layers, heads, POSITIONS, POSITIONS, generator=generator) * (1 + 5 * learned[..., None, None])
    maps = torch.softmax(scores.masked_fill(torch.ones(POSITIONS, POSITIONS).triu(1).bool(), -math.inf), -1)
    relation, cells = {"relation": RELATIONS}, {"query": range(POSITIONS), "key": range(POSITIONS)}
    features: dict[str, list[Any]] = {"feature": [*(f"offset {i}" for i in range(NEAR + 1)), *RELATIONS]}
    contexts, control = {"context": [1, 2, 4, 8, 16, 32]}, {"kind": ["mean"], "control": ["head", "random head"]}
    yield "Loss", Reading("batch", 4 - 3 * whole, "cross_entropy")
    yield "Accuracy", Reading("batch", whole, "accuracy")
    yield "InContextLearning", Reading("batch", -whole, "score")
    for probe, quantity, scale in HEAD_SCORES:
        yield probe, Reading("batch layer head", scale * (1.5 - head), quantity)
    for quantity in ("mass", "along"):
        yield "AttentionTo", Reading("batch layer head relation", mass, quantity, relation)
    yield "HeadSpecialisation", Reading("batch layer head relation", mass, "share", relation)
    for quantity in ("competition", "coverage"):
        yield "HeadSpecialisation", Reading("batch", whole, quantity)
    profile = torch.cat([offsets[..., : NEAR + 1], mass], -1)
    yield "PatternClusters", Reading("batch layer head feature", profile, "profile", features)
    yield "PatternClusters", Reading("layer head", (learned > 0.5).float(), "cluster")
    if step == LAST:
        features["cluster"] = [0, 1]
        yield "PatternClusters", Reading("cluster feature", profile.mean((0, 1))[:2], "centroid", features)
    yield "RestrictedContextKL", Reading("batch context", whole[:, None] + noisy(6), "kl", contexts)
    ablated = torch.stack([head, 0.1 * head], -1)[..., None, :]
    for quantity in ("kl", "loss_change"):
        yield "HeadAblation", Reading("batch layer head kind control", ablated, quantity, control)
    yield "OffsetProfile", Reading("batch layer head offset", offsets, "mass", {"offset": range(POSITIONS)})
    yield "MeanPattern", Reading("layer head query key", maps, "attention", cells)
    for probe, quantity in (("OVCopying", "copying"), ("QKOffset", "share")):
        yield probe, Reading("layer head", learned, quantity)


HEAD_SCORES = (
    ("AttentionEntropy", "entropy", 2.0),
    ("EffectiveSupport", "keys", 10.0),
    ("AttentionDistance", "distance", 10.0),
    ("ParticipationRatio", "dimensions", 3.0),
)
