"""Power laws over settings with several seeds: exponents, a held-out setting, and which of two laws it is."""

import functools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from evidence.calibration.cases import Generator
from evidence.calibration.onsets import Job, generator
from evidence.calibration.rows import Row, share
from stagewise.papers.mixed_law import compare_laws, fit_mixed
from stagewise.papers.power_law import fit_interval_censored

SPREAD = 0.3
"""Deviation of the log time of a run from the law; half of its variance is shared by the seeds of a setting."""


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for settings, seeds in ((6, 8), (10, 5), (20, 3)):
        yield f"laws of {settings} settings", functools.partial(_laws, settings, seeds)
    yield "laws compared", _compared


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
    g = generator(f"laws {settings}")
    covered, mixed, new = list[bool](), list[bool](), list[bool]()
    for _ in range(repetitions):
        runs = runs_of(g, settings + 1, seeds)
        known = runs[runs["setting"] < settings]
        random = fit_mixed(known.assign(time=np.sqrt(known["lo"] * known["hi"])), "T, d", "setting")
        held_out = runs[runs["setting"] == settings]
        prediction = random.predict(held_out)
        new.append(bool(prediction["lo"].iloc[0] <= held_out["lo"].iloc[0] / 0.95 <= prediction["hi"].iloc[0]))
        for law, hits in (
            (random.law, mixed),
            (fit_interval_censored(known, "T, d", settings="setting"), covered),
        ):
            hits += [law.lo[1] <= 1 <= law.hi[1], law.lo[2] <= 0.5 <= law.hi[2]]
    title = f"{settings} settings of {seeds} seeds"
    return [
        share(f"exponents covered, clustered: {title}", covered, 0.92, "higher"),
        share(f"exponents covered, random effects: {title}", mixed, 0.92, "higher"),
        share(f"a run of a setting beyond the others covered: {title}", new, 0.92, "higher"),
    ]


def _compared(repetitions: int) -> list[Row]:
    """The planted law, one without d, and one with a term too many, which predicts no worse: that cannot be told."""
    g, right, over = generator("laws compared"), list[bool](), list[bool]()
    for _ in range(repetitions):
        runs = runs_of(g, 10, 4).assign(more=np.repeat(np.exp(g.uniform(0, 2, 10)), 4))
        runs["time"] = np.sqrt(runs["lo"] * runs["hi"])
        verdicts = compare_laws(runs, ["T", "T, d", "T, d, more"], "setting").set_index("law")["verdict"]
        right.append(verdicts["T"] == "worse")
        over.append(verdicts["T, d"] == "worse")
    return [
        share("a law that lacks a term is worse, 10 settings of 4 seeds", right, 0.8, "higher"),
        share("the planted law is called worse, 10 settings of 4 seeds", over, 0.05, "lower"),
    ]
