"""Emergence times of noisy accuracies: how often their interval holds the step at which the curve crosses a half."""

import functools
from collections.abc import Iterator

import numpy as np

from stagewise.detection.thresholds import emergence_interval
from tests.calibration.cases import Generator, checkpoints, correlated, logistic
from tests.calibration.onsets import Job, generator
from tests.calibration.rows import Row, share

NOISES = {"white .03": 0.0, "AR .6 of .03": 0.6, "64 answers": None}
"""Name -> correlation of the noise; None draws the number of right answers."""


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for width in (0.05, 0.3, 0.6):
        for spacing in ("lin", "log"):
            yield f"emergence {width} {spacing}", functools.partial(_emergence, width, spacing)


def _emergence(width: float, spacing: str, repetitions: int) -> list[Row]:
    steps, rows = checkpoints(spacing, 60), []
    for noise, rate in NOISES.items():
        g, covered, early = generator(f"emergence {width} {spacing} {noise}"), [], []
        for _ in range(5 * repetitions):
            at = float(np.exp(g.uniform(np.log(300), np.log(1500))))
            true = 0.02 + 0.96 * logistic(steps, at, width)
            time = emergence_interval(steps, _measured(g, true, rate), 0.5)
            covered.append(time.lo <= at <= time.hi)
            early.append(time.hi < at)
        title = f"sigmoid {width}, {noise}, {spacing} 60"
        rows.append(share(f"emergence covered: {title}", covered, 0.92, "higher"))
        rows.append(share(f"emergence too early: {title}", early, 0.05, "lower"))
    return rows


def _measured(g: Generator, true: np.ndarray, rate: float | None) -> np.ndarray:
    if rate is None:
        return np.asarray(g.binomial(64, true) / 64)
    return np.asarray(true + correlated(g, len(true), rate, 0.03))
