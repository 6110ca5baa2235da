"""Power laws over settings with several seeds: exponents, a held-out setting, and which of two laws it is."""

import functools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from stagewise.detection.power_law import fit_interval_censored
from tests.calibration.cases import Generator
from tests.calibration.onsets import Job, generator
from tests.calibration.rows import Row, share

SPREAD = 0.3
"""Deviation of the log time of a run from the law; half of its variance is shared by the seeds of a setting."""


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for settings, seeds in ((6, 8), (10, 5), (20, 3)):
        yield f"laws of {settings} settings", functools.partial(_laws, settings, seeds)


def runs_of(g: Generator, settings: int, seeds: int) -> pd.DataFrame:
    """Return runs of time = 1.5 T d^.5, times known to within 5 %; the last setting lies outside the others."""
    T, d = np.exp(g.uniform(4, 7, settings)), np.exp(g.uniform(2, 4, settings))
    T[-1] = np.exp(7.5)
    shared = np.sqrt(0.5) * SPREAD * g.standard_normal(settings)
    number = np.repeat(np.arange(settings), seeds)
    own = np.sqrt(0.5) * SPREAD * g.standard_normal(len(number))
    time = 1.5 * T[number] * d[number] ** 0.5 * np.exp(shared[number] + own)
    return pd.DataFrame({"setting": number, "T": T[number], "d": d[number], "lo": 0.95 * time, "hi": 1.05 * time})


def _laws(settings: int, seeds: int, repetitions: int) -> list[Row]:
    g, alone, covered = generator(f"laws {settings}"), list[bool](), list[bool]()
    for _ in range(repetitions):
        runs = runs_of(g, settings + 1, seeds)
        known = runs[runs["setting"] < settings]
        for law, hits in (
            (fit_interval_censored(known, "T, d"), alone),
            (fit_interval_censored(known, "T, d", settings="setting"), covered),
        ):
            hits += [law.lo[1] <= 1 <= law.hi[1], law.lo[2] <= 0.5 <= law.hi[2]]
    title = f"{settings} settings of {seeds} seeds"
    return [
        share(f"exponents covered, seeds taken as independent: {title}", alone, 0.92, "higher"),
        share(f"exponents covered: {title}", covered, 0.92, "higher"),
    ]
