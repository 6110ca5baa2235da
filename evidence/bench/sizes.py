"""The largest that is promised, each within two gigabytes: heads of a report, curves of a log and its rows, positions.

Each is a command of its own, whose memory is that of all its processes.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from evidence.bench.reporting import COMMAND, measured_folder
from evidence.bench.timing import Row, peak_of_command, row

GIGABYTES = 2.0
"""The memory that each may take."""

LAYERS, HEADS, CHECKPOINTS = 25, 16, 50
CURVES, STEPS = 1000, 1000
ROWS_OF_LOG = 10_000_000
POSITIONS = 4096


def report_of_400_heads() -> Iterator[Row]:
    """Memory of a report of 400 heads."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = measured_folder(Path(scratch), CHECKPOINTS, LAYERS, HEADS)
        yield _peak(f"report of {LAYERS * HEADS} heads, {CHECKPOINTS} checkpoints", "report", str(folder))


def thousand_curves() -> Iterator[Row]:
    """Memory of the stages of a log of a thousand curves of a thousand steps."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "log.csv")
        names = ",".join(f"curve {number}" for number in range(CURVES))
        generator, steps = np.random.default_rng(0), 10 * np.arange(STEPS)
        falls = 1 / (1 + np.exp((steps[:, None] - generator.uniform(2000, 8000, CURVES)) / 200))
        columns = np.column_stack([steps, falls + 0.01 * generator.normal(size=(STEPS, CURVES))])
        np.savetxt(path, columns, fmt="%.5g", delimiter=",", header=f"step,{names}", comments="")
        yield _peak(f"stages of a log of {CURVES:,} curves of {STEPS:,} steps", "stages", str(path))


def long_log() -> Iterator[Row]:
    """Memory of the stages of a log of ten million rows."""
    with tempfile.TemporaryDirectory() as scratch:
        path, generator = Path(scratch, "log.csv"), np.random.default_rng(0)
        steps = np.arange(ROWS_OF_LOG)
        loss = 3 / (1 + np.exp((steps - ROWS_OF_LOG / 2) / 5e5)) + 0.01 * generator.normal(size=ROWS_OF_LOG)
        pd.DataFrame({"step": steps, "loss": loss.round(4)}).to_csv(path, index=False)
        del steps, loss
        yield _peak(f"stages of a log of {ROWS_OF_LOG:,} rows", "stages", str(path))


def long_sequences() -> Iterator[Row]:
    """Memory of the measurement of a small model on sequences of 4,096 tokens."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "run")
        few = ("--steps", "1", "--set", "plan.save=[]", "--set", "plan.batch_size=4", "--quiet")
        long = ("--set", f"architecture.config.n_ctx={POSITIONS}")
        subprocess.run([*COMMAND, "train", "repeated-tokens", "--folder", str(folder), *long, *few], check=True)
        tokens = Path(scratch, "tokens.npy")
        np.save(tokens, np.random.default_rng(0).integers(0, 64, (4, POSITIONS)))
        words = ("measure", str(folder), "--tokens", str(tokens), "--out", str(Path(scratch, "out")))
        yield _peak(f"measurement of all probes on sequences of {POSITIONS:,} tokens", *words)


ROWS = (report_of_400_heads, thousand_curves, long_log, long_sequences)


def _peak(name: str, *words: str) -> Row:
    return row(f"{name}: memory of all processes, GB", [peak_of_command(*COMMAND, *words) / 1e9], GIGABYTES)
