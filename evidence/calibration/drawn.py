"""Runs whose every part is drawn: checkpoints, backgrounds, noise, shape and place of a transition.

Nothing can be tuned to them: one set has a fixed seed, the other one the date's.
"""

import dataclasses
import datetime
from collections.abc import Callable, Iterator

import numpy as np
from scipy.signal import lfilter

from evidence.calibration.cases import Generator
from evidence.calibration.onsets import Job, alone
from evidence.calibration.rows import Row, share
from stagewise.statistics._constants import PARTS

FIXED = 20_260_101
"""The seed that does not change."""

CURVES = 10
"""Curves to each repetition."""

FEWEST = 12
"""Checkpoints of a run, at least."""

CLEAR = 10.0
"""Deviations of the noise from which a transition is clear."""


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A run: its steps, its curve [step], the true t10, t50, t90 if one is planted, and its size in deviations."""

    steps: np.ndarray
    curve: np.ndarray
    times: np.ndarray
    size: float


def steps_of(g: Generator) -> np.ndarray:
    """Return 12 to 154 steps: even in a power of the step or in its logarithm, after an earlier part, or with gaps."""
    n, last = round(float(np.exp(g.uniform(np.log(12), np.log(154))))), float(np.exp(g.uniform(6, 12)))
    if g.random() < 0.5:
        steps = last * np.linspace(g.choice([0.0, 0.0, 0.2]), 1, n) ** g.uniform(1, 3)
    else:
        steps = np.append(0.0, np.geomspace(1, last, n))
    kept = np.unique(steps.round())
    return np.asarray(kept[g.random(len(kept)) > g.choice([0.0, 0.0, 0.15])])


def background(g: Generator, steps: np.ndarray) -> np.ndarray:
    """Return a sum of up to two smooth curves, of sizes up to 2, which all rise or all fall: [step]."""
    last, sign = steps[-1], g.choice([-1.0, 1.0])
    makers: list[Callable[[float], np.ndarray]] = [
        lambda scale: (steps / last) ** g.uniform(0.2, 1.5),
        lambda scale: np.log1p(steps / scale) / np.log1p(last / scale),
        lambda scale: 1 - (1 + steps / scale) ** -g.uniform(0.2, 2),
        lambda scale: 1 - np.exp(-steps / scale),
    ]
    chosen = [makers[k](last * float(np.exp(g.uniform(-6, 0)))) for k in g.integers(len(makers), size=g.integers(3))]
    return np.asarray(sign * sum((g.uniform(0, 2) * each for each in chosen), 0 * steps))


def noise(g: Generator, n: int) -> np.ndarray:
    """Return noise of unit deviation: normal or heavier tails, coloured by two poles, of a level that may change."""
    innovations = g.standard_t(g.choice([4, 8, 100]), 3 * n)
    slow, fast = g.uniform(-0.2, g.choice([0.2, 0.6, 0.85])), g.uniform(-0.4, 0.4)
    coloured = lfilter([1.0], np.convolve([1, -slow], [1, -fast]), innovations)[-n:]
    level = np.exp(g.choice([0.0, 0.0, 1.0]) * g.uniform(-1.5, 1.5) * np.linspace(-0.5, 0.5, n))
    return np.asarray(level * coloured / coloured.std())


def transition(g: Generator, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a rise by 1 as Richards's curve, in log(1 + step) or in the step, [step], and its t10, t50 and t90.

    Source: Richards (1959), A flexible growth function for empirical use.
    """
    u, n = np.log1p(steps), len(steps)
    middle = float(np.interp(g.uniform(0.25, 0.75) * (n - 1), np.arange(n), u))
    spacing = float(np.interp(middle, (u[1:] + u[:-1]) / 2, np.diff(u)))
    width, skew = float(np.exp(g.uniform(np.log(0.3 * spacing), np.log(max(0.25, 2 * spacing))))), g.uniform(-1, 1)
    in_steps = g.random() < 0.3

    def at(places: np.ndarray) -> np.ndarray:
        away = np.expm1(places - middle) if in_steps else places - middle
        return np.asarray((1 + np.exp(-np.clip(away / width, -500, 500))) ** -np.exp(skew))

    fine = np.linspace(middle - 40 * width, middle + 40 * width, 40_001)
    return at(u), np.expm1(np.interp(PARTS, at(fine), fine))


def draw(g: Generator, *, planted: bool) -> Drawn:
    """Draw a run, with a transition of 4 to 40 deviations of the noise or without any."""
    while len(steps := steps_of(g)) < FEWEST:
        pass
    while (rising := transition(g, steps))[1][0] < steps[1]:
        pass
    rise, times = rising
    size = float(np.exp(g.uniform(np.log(4), np.log(40))))
    curve = background(g, steps) + noise(g, len(steps)) / size + (g.choice([-1, 1]) * rise if planted else 0)
    return Drawn(steps, curve, times, size)


def near(one: Drawn, halves: np.ndarray) -> int | None:
    """Return which of the times found, in log(1 + step), is the planted one; None where none is near."""
    u, half = np.log1p(one.steps), np.log1p(one.times[1])
    spacing = float(np.interp(half, (u[1:] + u[:-1]) / 2, np.diff(u)))
    away = abs(halves - half)
    return int(away.argmin()) if len(away) and away.min() < max(0.4, 2 * spacing) else None


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield the runs of the fixed seed, and those of the day."""
    day = datetime.datetime.now(datetime.UTC).date()
    for name, seed in (("a fixed seed", FIXED), (str(day), day.toordinal())):
        yield f"drawn, nulls of {name}", _nulls(name, seed)
        yield f"drawn, planted of {name}", _planted(name, seed)


def _nulls(name: str, seed: int) -> Job:
    def run(repetitions: int) -> list[Row]:
        g = np.random.default_rng([seed, 0])
        runs = [draw(g, planted=False) for _ in range(CURVES * repetitions)]
        found = [len(alone(one.steps, one.curve[None])[0]) > 0 for one in runs]
        return [share(f"false onsets: drawn, {name}", found, 0.05, "lower")]

    return run


def _planted(name: str, seed: int) -> Job:
    def run(repetitions: int) -> list[Row]:
        g = np.random.default_rng([seed, 1])
        runs = [draw(g, planted=True) for _ in range(CURVES * repetitions)]
        return _compared(name, runs)

    return run


def _compared(name: str, runs: list[Drawn]) -> list[Row]:
    onsets = [alone(one.steps, one.curve[None])[0] for one in runs]
    places = [near(one, np.log1p(each["t50"].to_numpy(float))) for one, each in zip(runs, onsets, strict=True)]
    sizes = {"from 32 checkpoints on": (32, np.inf, 0.8), "fewer checkpoints": (0, 32, 0.5)}
    rows = []
    for words, (least, most, goal) in sizes.items():
        hits = zip(places, runs, strict=True)
        clear = [place is not None for place, one in hits if one.size >= CLEAR and least <= len(one.steps) < most]
        rows.append(share(f"found: drawn, {name}, clear, {words}", clear, goal, "higher"))
    rows.append(share(f"more than planted: drawn, {name}", [len(each) > 1 for each in onsets], 0.05, "lower"))
    for k, part in enumerate(("t10", "t50", "t90")):
        covered = [
            bool(each[f"{part}_lo"].iloc[place] <= one.times[k] <= each[f"{part}_hi"].iloc[place])
            for one, each, place in zip(runs, onsets, places, strict=True)
            if place is not None
        ]
        rows.append(share(f"covered {part}: drawn, {name}", covered, 0.92, "higher"))
    return rows
