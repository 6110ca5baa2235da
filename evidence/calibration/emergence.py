"""Emergence times of noisy accuracies: how often their interval holds the step at which the curve crosses a level."""

import functools
from collections.abc import Iterator, Sequence

import numpy as np

from evidence.calibration.cases import Generator, checkpoints, correlated, logistic
from evidence.calibration.onsets import Job, generator
from evidence.calibration.rows import Row, share
from stagewise.papers.emergence_interval import emergence_interval
from stagewise.statistics import Interval

NOISES = {"white .03": 0.0, "AR .6 of .03": 0.6, "64 answers": None}
"""Name -> correlation of the noise; None draws the number of right answers."""


NEAR_CHANCE = {(100, 0.25): 0.3, (100, 0.5): 0.55, (64, 0.5): 0.6}
"""Answers and their share by chance -> a threshold within two deviations of the plateau."""

SHORT_OF = {0.45: 0.5, 0.48: 0.5}
"""Accuracy at which a curve levels off -> a threshold that it never reaches, of 100 answers."""


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for width in (0.05, 0.3, 0.6):
        for spacing in ("lin", "log"):
            yield f"emergence {width} {spacing}", functools.partial(_emergence, width, spacing)
    yield "emergence near chance", _near_chance
    yield "emergence never", _never


def _emergence(width: float, spacing: str, repetitions: int) -> list[Row]:
    steps, rows = checkpoints(spacing, 60), []
    for noise, rate in NOISES.items():
        g, times = generator(f"emergence {width} {spacing} {noise}"), []
        for _ in range(5 * repetitions):
            at = _planted(g)
            true = 0.02 + 0.96 * logistic(steps, at, width)
            times.append((at, emergence_interval(steps, _measured(g, true, rate), 0.5)))
        rows += _rows(f"sigmoid {width}, {noise}, {spacing} 60", times)
    return rows


def _near_chance(repetitions: int) -> list[Row]:
    steps, rows = checkpoints("lin", 60), []
    for (answers, chance), threshold in NEAR_CHANCE.items():
        g, times = generator(f"emergence {answers} {chance}"), []
        for _ in range(5 * repetitions):
            at = _planted(g)
            # The middle of the rise lies behind the step at which it reaches the threshold.
            middle = np.expm1(np.log1p(at) + 0.05 * np.log((1 - threshold) / (threshold - chance)))
            true = chance + (1 - chance) * logistic(steps, float(middle), 0.05)
            try:
                time = emergence_interval(steps, g.binomial(answers, true) / answers, threshold)
            except ValueError:  # a plateau that seems to lie past the threshold is refused
                time = Interval(np.inf, np.inf)
            times.append((at, time))
        rows += _rows(f"{answers} answers, chance {chance}, threshold {threshold}", times)
    return rows


def _never(repetitions: int) -> list[Row]:
    steps, rows = checkpoints("lin", 60), []
    for level, threshold in SHORT_OF.items():
        g = generator(f"emergence never {level}")
        true = 0.05 + (level - 0.05) * logistic(steps, 600, 0.1)
        crossed = [
            not emergence_interval(steps, g.binomial(100, true) / 100, threshold).censored
            for _ in range(5 * repetitions)
        ]
        rows.append(share(f"emergence of what levels off at {level}, threshold {threshold}", crossed, 0.05, "lower"))
    return rows


def _planted(g: Generator) -> float:
    """Draw the step at which a curve crosses its level."""
    return float(np.exp(g.uniform(np.log(300), np.log(1500))))


def _rows(title: str, times: Sequence[tuple[float, Interval]]) -> list[Row]:
    """Return how often intervals hold the planted steps, and how often they end before them."""
    covered = [time.lo <= at <= time.hi for at, time in times]
    early = [time.hi < at for at, time in times]
    return [
        share(f"emergence covered: {title}", covered, 0.92, "higher"),
        share(f"emergence too early: {title}", early, 0.05, "lower"),
    ]


def _measured(g: Generator, true: np.ndarray, rate: float | None) -> np.ndarray:
    if rate is None:
        return np.asarray(g.binomial(64, true) / 64)
    return np.asarray(true + correlated(g, len(true), rate, 0.03))
