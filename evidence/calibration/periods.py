"""Stages of heads without references: of one time, of several, of many heads one after another, of one event that two
curves show."""

import functools
import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from evidence.calibration.cases import checkpoints, correlated, logistic
from evidence.calibration.onsets import Job, generator
from evidence.calibration.rows import Row, share
from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings.stages import find_stages

HEADS: dict[str, list[list[float]]] = {
    "14 heads one after another": [list(np.geomspace(240, 2400, 14))],
    "20 heads at one time": [[1000.0] * 20],
    "two times of 7 heads": [[300.0] * 7, [1500.0] * 7],
    "three heads apart": [[250.0], [700.0], [1900.0]],
    "5 heads, then 10 one after another": [[250.0] * 5, list(np.geomspace(600, 2400, 10))],
    "six times of 3 heads": [[step] * 3 for step in np.geomspace(240, 2400, 6)],
}
"""The steps at which heads rise, by the period that they belong to."""

WIDTHS = (0.05, 0.15)
NOISE = 0.02
NOISES = (0.002, 0.01, 0.03)


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for name in HEADS:
        yield f"periods {name}", functools.partial(_stages, name)
    yield "periods one event", _one_event


def _stages(name: str, repetitions: int) -> list[Row]:
    """A third of the repetitions, in both spacings and with both widths: each has many curves."""
    g, right, covered = generator(name), [], []
    truth = [float(np.median(period)) for period in HEADS[name]]
    for _ in range(max(1, repetitions // 3)):
        for spacing in ("lin", "log"):
            for width in WIDTHS:
                stages = find_stages(_table(g, name, spacing, width)).table.iloc[1:]
                right.append(len(stages) == len(truth))
                if right[-1]:
                    covered += ((stages["start_lo"] <= truth) & (truth <= stages["start_hi"])).tolist()
    return [
        share(f"stages as planted: {name}", right, 0.9, "higher"),
        share(f"stages begin where planted: {name}", covered, 0.92, "higher"),
    ]


def _table(g: np.random.Generator, name: str, spacing: str, width: float) -> pd.DataFrame:
    steps = checkpoints(spacing, 60)
    frames = [
        pd.DataFrame({"step": steps, "head": head}).assign(
            value=0.1 + 0.7 * logistic(steps, at, width) + correlated(g, len(steps), 0.0, NOISE)
        )
        for head, at in enumerate(at for period in HEADS[name] for at in period)
    ]
    heads = pd.concat(frames, ignore_index=True)
    return heads.assign(run="run", probe="AttentionTo", quantity="mass", relation="induction", layer=0)


def _one_event(repetitions: int) -> list[Row]:
    """An accuracy and the loss of the same answers: this is half-way after that, the more certainly the less noise."""
    g, right = generator("one event"), []
    for _ in range(max(1, repetitions // 3)):
        for spacing, width, noise in itertools.product(("lin", "log"), WIDTHS, NOISES):
            steps = checkpoints(spacing, 100)
            solved = 0.02 + 0.96 * logistic(steps, g.uniform(400, 1600), width)
            curves = {"accuracy": solved, "loss": -np.log(solved) / 4}
            noisy = {name: curve + correlated(g, len(steps), 0.0, noise) for name, curve in curves.items()}
            right.append(len(find_stages(read_log({"step": steps, **noisy}))) == 2)
    return [share("one stage of one event seen by accuracy and loss", right, 0.95, "higher")]
