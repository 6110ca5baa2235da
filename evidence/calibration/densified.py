"""Intervals of boundaries in runs that are densified within them: `python -m evidence.calibration 60 densified`."""

import functools
from collections.abc import Callable, Iterator

import numpy as np

from evidence.calibration.cases import Generator, correlated, logistic
from evidence.calibration.onsets import Job, generator
from evidence.calibration.rows import Row, share
from stagewise.findings import Turn, turning_point
from stagewise.replay.densifying import steps_within
from stagewise.replay.windows import Window
from stagewise.statistics import signals

LAST, DEVIATION, BEFORE = 900, 0.005, 300
EVERY = np.arange(LAST + 1.0)
SAVED = sorted({*range(0, LAST + 1, 15), 1, 2, 3, 5, 7, 10})


def _valley(fall: float, second: float, width: float, rise: tuple[float, float, float]) -> np.ndarray:
    size, at, slow = rise
    falls = 1.7 * logistic(EVERY, fall, width) + 0.8 * logistic(EVERY, second, 0.11)
    return np.asarray(2.7 - falls + size * logistic(EVERY, at, slow))


SHAPES = {
    "three stages": _valley(40, 200, 0.1, (0.4, 450, 0.1)),
    "flat valley": _valley(30, 230, 0.25, (0.25, 620, 0.12)),
    "steep fall, slow rise": 2.7 - 2.4 * logistic(EVERY, 240, 0.03) + 0.8 * logistic(EVERY, 1500, 0.5),
}
"""Curves whose minimum is searched for from step 200 on."""


def _swings(g: Generator, period: float, fading: float) -> np.ndarray:
    kept, noise = np.exp(-1 / fading), g.standard_normal(BEFORE + LAST + 1)
    for i in range(2, len(noise)):
        noise[i] += 2 * kept * np.cos(2 * np.pi / period) * noise[i - 1] - kept**2 * noise[i - 2]
    return np.asarray(DEVIATION * noise[BEFORE:] / noise[BEFORE:].std())


NOISES: dict[str, Callable[[Generator], np.ndarray]] = {
    "white": lambda g: DEVIATION * g.standard_normal(LAST + 1),
    "fades over 4 steps": lambda g: correlated(g, LAST + 1, np.exp(-1 / 4), DEVIATION),
    "fades over 15 steps": lambda g: correlated(g, LAST + 1, np.exp(-1 / 15), DEVIATION),
    "swings, period 10": lambda g: _swings(g, 10, 6),
    "swings, period 15": lambda g: _swings(g, 15, 8),
}


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for shape in SHAPES:
        for name in NOISES:
            yield f"densified {shape} {name}", functools.partial(_densified, shape, name)


def _densified(shape: str, name: str, repetitions: int) -> list[Row]:
    g, truth = generator(f"{shape} {name}"), 200 + int(SHAPES[shape][200:].argmin())
    before, covered = [], []
    for _ in range(repetitions):
        values = SHAPES[shape] + NOISES[name](g)
        first = _lowest(values, SAVED)
        steps = steps_within([Window(first.lo, first.hi, 2)], LAST, saved=SAVED)
        finer = _lowest(values, sorted({*SAVED, *steps}))
        before.append(first.lo <= truth <= first.hi)
        covered.append(finer.lo <= truth <= finer.hi)
    return [
        share(f"boundaries covered: before they are densified, {shape}, {name}", before, 0.92, "higher"),
        share(f"boundaries covered: densified, {shape}, {name}", covered, 0.92, "higher"),
    ]


def _lowest(values: np.ndarray, steps: list[int]) -> Turn:
    return turning_point(signals(np.array(steps), values[steps]))
