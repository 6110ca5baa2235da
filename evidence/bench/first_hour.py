"""A user's first hour: the demo, a report of a public suite's size, a long log, long sequences, a large vocabulary."""

import functools
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from evidence.bench.engine import fresh_series, ours
from evidence.bench.reporting import measured_folder
from evidence.bench.timing import Pair, Row, cpu_seconds, ratio, row, spent, spent_by_command
from stagewise.architectures import full
from stagewise.checkpoints.logged_curves import read_log
from stagewise.checkpoints.run_folder import read_table
from stagewise.findings.stages import find_stages
from stagewise.measurement.probe_batch import usable
from stagewise.probes import KLToReference
from stagewise.probes.default_probes import default_probes
from stagewise.table import select
from stagewise.tasks import RepeatedTokens

COMMAND = (sys.executable, "-m", "stagewise")
RUNS = 5

SAME = {
    "loss": ("Loss", "cross_entropy", None),
    "attention": ("AttentionTo", "mass", "relation"),
    "ablation": ("HeadAblation", "loss_change", None),
    "KL": ("KLToReference", "kl", "reference"),
}
"""Probe of the script -> the probe, the quantity and the axis of the table that its numbers are of."""

EARLY, AGREE, CARRIED = 150, 1e-4, 1e-3
"""Up to this step numbers of both agree so far; later training has carried roundings on, to differences of 2e-4."""

SUITE = (154, 12, 12)
"""Checkpoints, layers and heads a layer of Pythia-160m."""

LONG = (512, 2046)
"""Tokens of a sequence."""

VOCABULARY, LARGE_VOCABULARY = 2048, 10_000

STEPS, JUMP = 1_000_000, 406
"""Steps of a log, and the one at which its loss falls."""


def demo() -> Iterator[Row]:
    """The demo, from training to report, with two workers; and beside it a script of one's own for a part of that."""
    pairs = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as scratch:
            run, own = (str(Path(scratch, name)) for name in ("run", "own"))
            ours = spent_by_command(*COMMAND, "run", "markov", "--workers", "2", "--folder", run)
            lean = spent_by_command(sys.executable, "-m", "evidence.bench.lean_demo", run, own)
            check_numbers(read_table(run), pd.read_csv(Path(own, "numbers.csv")))
            pairs.append(Pair(lean, ours))
    cpu = sorted(pair.second.cpu for pair in pairs)[RUNS // 2]
    name = "stagewise run markov --workers 2: wall seconds"
    yield row(name, [pair.second.wall for pair in pairs], 17, note=f"CPU {cpu:.0f} s of all processes")
    name = "lean script of the same demo (plain torch, four probe kinds, one figure) over stagewise, CPU"
    yield ratio(name, pairs, 0.8, "higher")


def check_numbers(table: pd.DataFrame, numbers: pd.DataFrame) -> None:
    """Hold every number of the script to the one of the table."""
    for probe, (name, quantity, of) in SAME.items():
        rows = select(table, name, quantity)
        if name == "HeadAblation":
            rows = rows[(rows["kind"] == "mean") & (rows["control"] == "head")]
        keys = ["step", *(["head"] if "head" in rows else []), *([of] if of else [])]
        script = numbers[numbers["probe"] == probe].rename(columns={"of": of or "of"})
        both = script.merge(rows[[*keys, "value"]], on=keys, suffixes=("", "_of_table"), validate="1:1")
        assert len(both) == len(script) > 0, f"{probe}: {len(script)} numbers, {len(both)} of them in the table"
        apart = (both["value"] - both["value_of_table"]).abs()
        early = both["step"] <= EARLY
        assert apart[early].max() <= AGREE, f"{probe}: apart by {apart[early].max():.1e} up to step {EARLY}"
        assert apart.max() <= CARRIED, f"{probe}: apart by {apart.max():.1e}"


def suite_report() -> Iterator[Row]:
    """Wall seconds and size of a report of 154 checkpoints and 144 heads."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = measured_folder(Path(scratch), *SUITE)
        times = []
        for _ in range(RUNS):
            (folder / "tables" / "stages.json").unlink(missing_ok=True)
            times.append(spent(functools.partial(_command, "report", str(folder))))
        name, cpu = "report of 154 checkpoints x 144 heads", sorted(each.cpu for each in times)[RUNS // 2]
        yield row(f"{name}: wall seconds", [each.wall for each in times], 25, note=f"CPU {cpu:.0f} s")
        yield row(f"{name}: page, MB", [(folder / "report.html").stat().st_size / 1e6], 3)


def long_log() -> Iterator[Row]:
    """CPU seconds to read a log of a million steps and to find its transition, which must be there."""
    steps = np.arange(STEPS)
    loss = 4 - 2 / (1 + np.exp(-(steps - JUMP) / 20)) + np.random.default_rng(0).normal(0, 0.05, STEPS)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "log.csv")
        pd.DataFrame({"step": steps, "loss": loss}).to_csv(path, index=False)
        seconds = []
        for _ in range(RUNS):
            start = cpu_seconds()
            _, after = find_stages(read_log(path)).table.to_dict("records")
            seconds.append(cpu_seconds() - start)
    assert after["start_lo"] <= JUMP <= after["start_hi"]
    note = f"half-way at {after['start']:.0f} [{after['start_lo']:.0f}, {after['start_hi']:.0f}], planted {JUMP}"
    yield row("a log of 1e6 steps, read and searched: CPU seconds", seconds, note=note)


def long_sequences() -> Iterator[Row]:
    """Exponent of measuring time in the length of sequences, whose goal is that of the products."""
    seconds, products = [], []
    for length in LONG:
        task = RepeatedTokens(VOCABULARY, length=length * 2 // 3)
        architecture = full(VOCABULARY, task.n_ctx, n_layers=2, n_heads=4, d_model=64, d_mlp=256)
        batch = usable(task.probe_batch(4, 0))
        work = ours(fresh_series(architecture), default_probes(architecture, batch, task), batch)
        work()
        seconds.append(sorted(spent(work).cpu for _ in range(RUNS))[RUNS // 2])
        positions = batch.tokens.shape[1]
        products.append(positions * (2 * 12 * 64**2 + VOCABULARY * 64 + 2 * 2 * 64 * positions))
    longer = math.log(LONG[1] / LONG[0])
    value, goal = (math.log(second / first) / longer for first, second in (seconds, products))
    note = "CPU " + ", ".join(f"{each:.1f}" for each in seconds) + " s; the goal is the exponent of the products"
    yield row("exponent of measuring time in tokens of a sequence, 512 to 2046", [value], round(goal, 2), note=note)


def large_vocabulary() -> Iterator[Row]:
    """What `KLToReference` takes of a measurement with ten thousand tokens."""
    task = RepeatedTokens(LARGE_VOCABULARY, length=32)
    architecture = full(LARGE_VOCABULARY, task.n_ctx, n_layers=2, n_heads=4, d_model=64, d_mlp=256)
    batch = usable(task.probe_batch(32, 0))
    every = default_probes(architecture, batch, task)
    series = fresh_series(architecture)
    sides = [ours(series, probes, batch) for probes in (every, [p for p in every if not isinstance(p, KLToReference)])]
    for side in sides:
        side()
    pairs = [[spent(side).cpu for side in sides] for _ in range(RUNS)]
    shares = [1 - without / of_all for of_all, without in pairs]
    note = f"CPU {pairs[0][0]:.1f} s with it"
    yield row("a vocabulary of 10,000: share of KLToReference", shares, 0.15, note=note)


ROWS = (demo, suite_report, long_log, long_sequences, large_vocabulary)


def _command(*arguments: str) -> None:
    subprocess.run([*COMMAND, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
