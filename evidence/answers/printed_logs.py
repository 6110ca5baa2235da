"""Logs as nanoGPT prints them: a line an iteration with its time, and the two losses at every evaluation."""

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from evidence.answers.case import Case, Truth
from evidence.answers.logged import kind, loss, one
from evidence.answers.planting import generator
from evidence.answers.told import OVERFITTING
from stagewise import read_log

STEPS, EVERY, EVALUATED = 3000, 10, 100


class Printed(NamedTuple):
    """Losses on training and held-out data to plant at every evaluation, and the truth."""

    sentence: str
    make: Callable[[np.random.Generator, np.ndarray], tuple[np.ndarray, np.ndarray]]
    truth: Truth


def _both(g: np.random.Generator, t: np.ndarray, *falls: float) -> tuple[np.ndarray, np.ndarray]:
    return loss(g, t, *falls), loss(g, t, *falls) + 0.05


def _turned(g: np.random.Generator, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    train, held_out = _both(g, t)
    return train, held_out + 5e-4 * (t - 1000).clip(min=0)


LOGS = {
    "smooth": Printed("Smooth losses.", _both, Truth()),
    "a fall": Printed("Both losses fall at step 900.", lambda g, t: _both(g, t, 900), one(900)),
    "overfitting": Printed("The loss on held-out data turns up after step 1000.", _turned, kind(OVERFITTING)),
}


def cases() -> Iterator[Case]:
    """Yield the logs."""
    for name, log in LOGS.items():
        yield Case(f"nanoGPT: {name}", log.sentence, functools.partial(_printed, name, log), log.truth)


def _printed(name: str, log: Printed, folder: Path) -> pd.DataFrame:
    g, steps = generator(f"nanoGPT {name}"), np.arange(0, STEPS + 1, EVERY)
    lines = list[str]()
    for step, train, held_out in zip(steps, *log.make(g, steps.astype(float)), strict=True):
        if step % EVALUATED == 0:
            lines.append(f"step {step}: train loss {train:.4f}, val loss {held_out:.4f}")
        batch = train + 0.05 * g.standard_normal()
        lines.append(f"iter {step}: loss {batch:.4f}, time {g.uniform(95, 105):.2f}ms, mfu {g.uniform(20, 21):.2f}%")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "train.log"
    path.write_text("\n".join(lines))
    return read_log(path)
