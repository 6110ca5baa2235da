"""Shapes that nothing was fitted to, at the checkpoints of real suites: false onsets, planted ones, boundaries."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from evidence.calibration.cases import Generator, Planted, correlated, logistic
from evidence.calibration.findings import STEPS, table
from evidence.calibration.onsets import Job, alone, compared, false_onsets, generator
from evidence.calibration.rows import Row, share
from evidence.calibration.specials import Maker
from stagewise.findings.stages import find_stages

RISE = 0.6


def _with_gaps() -> np.ndarray:
    steps = np.arange(0, 3001, 40.0)
    missing = [*range(25, 36), 7, 12, 41, 48, 55, 60]
    return np.delete(steps, missing)


SPACINGS = {
    "Pythia": np.concatenate([[0], 2.0 ** np.arange(10), np.arange(1000.0, 143001, 1000)]),
    "late": np.arange(5000.0, 20001, 250),
    "gaps": _with_gaps(),
}
"""All 154 checkpoints of Pythia; a run that is saved from step 5000 on; one that lost a fifth of its checkpoints."""


def part(t: np.ndarray) -> np.ndarray:
    """Return how far the run is, from 0 to 1."""
    return np.asarray((t - t[0]) / (t[-1] - t[0]))


def _white(g: Generator, t: np.ndarray, deviation: float = 0.02) -> np.ndarray:
    return deviation * g.standard_normal(len(t))


def _broken_power(g: Generator, t: np.ndarray) -> np.ndarray:
    bend, early, late = t[-1] * g.uniform(0.02, 0.4), g.uniform(0.05, 0.2), g.uniform(0.4, 0.8)
    return np.asarray(1 + 2 * (1 + t / 10) ** -early * (1 + (t / bend) ** 2) ** ((early - late) / 2) + _white(g, t))


def _oscillation(g: Generator, t: np.ndarray) -> np.ndarray:
    wave = np.sin(2 * np.pi * g.uniform(8, 14) * part(t) + g.uniform(0, 6))
    return np.asarray(0.5 + 0.5 * np.exp(-3 * part(t)) + 0.2 * np.exp(-5 * part(t)) * wave + _white(g, t))


def _loss(g: Generator, t: np.ndarray) -> np.ndarray:
    return np.asarray((1.5 + 8 * (1 + t * 1000 / t[-1]) ** -0.4) * (1 + _white(g, t, 0.03)))


def _saturating(g: Generator, t: np.ndarray) -> np.ndarray:
    return g.binomial(64, 0.02 + 0.97 * (1 - np.exp(-part(t) * g.uniform(3, 30)))) / 64


def _one_by_one(g: Generator, t: np.ndarray) -> np.ndarray:
    learnt = np.exp(g.uniform(np.log1p(t[1]), np.log1p(t[-1]), 50))
    return np.asarray((1 + t >= learnt[:, None]).mean(0))


NULLS: dict[str, Maker] = {
    "power law of two exponents": _broken_power,
    "exponential growth to the end": lambda g, t: 0.1 + 0.6 * np.exp(g.uniform(2, 5) * (part(t) - 1)) + _white(g, t),
    "damped oscillation": _oscillation,
    "loss with noise of 3 % of itself": _loss,
    "saturating accuracy of 64 answers": _saturating,
    "parabola over the run": lambda g, t: 0.5 + (part(t) - g.uniform(0.3, 0.7)) ** 2 + _white(g, t),
    "drift with noise of t2": lambda g, t: 0.3 + 0.2 * part(t) + 0.02 * g.standard_t(2, len(t)),
    "accuracy of 64 answers, saturated": lambda g, t: g.binomial(64, 0.999, len(t)) / 64,
    "50 fixed questions, learned one by one": _one_by_one,
}


class Place(NamedTuple):
    """Where a transition is, in log(1 + step), and the width in which it makes 80 % of its way: four checkpoints."""

    u: float
    width: float


def place(g: Generator, t: np.ndarray, lo: float = 0.2, hi: float = 0.7) -> Place:
    """Return a place between two parts of the checkpoints."""
    u = np.log1p(t)
    middle = float(np.interp(g.uniform(lo, hi) * (len(t) - 1), np.arange(len(t)), u))
    spacing = float(np.interp(middle, (u[1:] + u[:-1]) / 2, np.diff(u)))
    return Place(middle, float(np.clip(4 * spacing, 0.2, 1.2)))


def _timed(t: np.ndarray, curve: Callable[[np.ndarray], np.ndarray]) -> Planted:
    """Return a rise, a function of log(1 + step), with its times."""
    u = np.linspace(np.log1p(t[0]), np.log1p(t[-1]) + 1, 200_000)
    values = curve(u)
    way = (values - values[0]) / (values[-1] - values[0])
    return Planted(curve(np.log1p(t)), np.expm1(np.array([[u[np.argmax(way >= made)] for made in (0.1, 0.5, 0.9)]])))


def _step(g: Generator, t: np.ndarray) -> Planted:
    at = int(g.integers(round(0.2 * len(t)), round(0.7 * len(t))))
    return Planted((np.arange(len(t)) >= at).astype(float), np.full((1, 3), (t[at] + t[at - 1]) / 2))


def _stairs(g: Generator, t: np.ndarray) -> Planted:
    rises = [_sigmoid(g, t, lo, lo + 0.05) for lo in (0.2, 0.45, 0.7)]
    return Planted(sum((one.values for one in rises), 0 * t), np.concatenate([one.times for one in rises]))


def _sigmoid(g: Generator, t: np.ndarray, lo: float, hi: float) -> Planted:
    at = place(g, t, lo, hi)
    return _timed(t, lambda u: logistic(np.expm1(u), float(np.expm1(at.u)), min(at.width, 0.4) / 4.4))


def _gompertz(g: Generator, t: np.ndarray) -> Planted:
    at = place(g, t)
    return _timed(t, lambda u: np.exp(-np.exp(-(u - at.u) / (at.width / 3.08))))


def _saddle(g: Generator, t: np.ndarray) -> Planted:
    at = place(g, t)
    middle = np.expm1(at.u)
    return _timed(t, lambda u: 1 / (1 + np.exp(-(np.expm1(u) - middle) / (middle * at.width / 4.4))))


def _arctangent(g: Generator, t: np.ndarray) -> Planted:
    at = place(g, t)
    return _timed(t, lambda u: 0.5 + np.arctan((u - at.u) / (at.width / 6.2)) / np.pi)


def _overshoot(g: Generator, t: np.ndarray) -> Planted:
    one = _sigmoid(g, t, 0.2, 0.5)
    half = one.times[0, 1]
    return Planted(one.values * (1 + 0.25 * np.exp(-np.maximum(t - half, 0) / half)), one.times)


def _late(g: Generator, t: np.ndarray) -> Planted:
    return _sigmoid(g, t, 0.9, 0.92)


PLANTED: dict[str, Callable[[Generator, np.ndarray], Planted]] = {
    "step between two checkpoints": _step,
    "staircase of three": _stairs,
    "Gompertz": _gompertz,
    "escape from a saddle": _saddle,
    "arctangent": _arctangent,
    "overshoot that settles": _overshoot,
    "in the last tenth": _late,
}


def _way(one: np.ndarray) -> np.ndarray:
    """Return a curve from 0 to 1."""
    return np.asarray((one - one.min()) / np.ptp(one))


def _answers(g: Generator, one: np.ndarray) -> np.ndarray:
    return np.asarray(g.binomial(64, 0.02 + 0.96 * _way(one)) / 64)


VALUES: dict[str, Callable[[Generator, np.ndarray], np.ndarray]] = {
    "20 times": lambda g, one: 0.1 + RISE * one + RISE / 20 * g.standard_normal(len(one)),
    "64 answers": _answers,
    "50 answers, none right before": lambda g, one: g.binomial(50, 0.8 * _way(one)) / 50,
    "50 fixed questions": lambda g, one: (_way(one)[:, None] >= g.random(50)).mean(1),
    "clipped at 0 and 1": lambda g, one: (_way(one) + 0.05 * g.standard_normal(len(one))).clip(0, 1),
}
"""How a planted curve is seen: with white noise, clipped or not, or as the share of right ones among drawn or fixed
questions."""

BOUNDARIES = {"two references turn at one step": 1, "Gompertz falls": 2}
"""Name -> how many boundaries it has."""


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for name, spacing in itertools.product(NULLS, SPACINGS):
        yield f"apart, null {name}, {spacing}", functools.partial(_null, name, spacing)
    for name, values, spacing in itertools.product(PLANTED, VALUES, SPACINGS):
        yield f"apart, planted {name}, {values}, {spacing}", functools.partial(_planted, name, values, spacing)
    for name in BOUNDARIES:
        yield f"apart, boundaries, {name}", functools.partial(_boundaries, name)


def _null(name: str, spacing: str, repetitions: int) -> list[Row]:
    title, steps = f"apart, false onsets: {name}, {spacing}", SPACINGS[spacing]
    g = generator(title)
    curves = np.array([NULLS[name](g, steps) for _ in range(repetitions)])
    return false_onsets(title, steps, curves)


def _planted(name: str, values: str, spacing: str, repetitions: int) -> list[Row]:
    title, steps = f"apart, {name}, {values}, {spacing}", SPACINGS[spacing]
    g = generator(title)
    planted = [PLANTED[name](g, steps) for _ in range(repetitions)]
    curves = np.array([VALUES[values](g, one.values) for one in planted])
    return compared(title, steps, planted, alone(steps, curves), 0.9)


def _curves(name: str) -> np.ndarray:
    """Return KL to three nested references: [reference, step]."""
    if BOUNDARIES[name] == 1:
        falls = np.array([logistic(STEPS, at, 0.1) for at in (60, 250)])
        sizes = np.array([[-1.8, 0.8], [-1.9, 0.7], [-1.7, -0.9]])
        return np.asarray(np.array([[2.6], [2.7], [2.7]]) + sizes @ falls)
    u = np.log1p(STEPS)
    falls = np.array([np.exp(-np.exp(-(u - np.log1p(at)) / 0.12)) for at in (60, 250, 500)])
    parts = np.array([[-1.8, 1.0, 0.3], [-1.7, -0.7, 0.6], [-1.7, -0.7, -0.25]])
    return np.asarray(np.array([[2.6], [2.7], [2.7]]) + parts @ falls)


def _boundaries(name: str, repetitions: int) -> list[Row]:
    g, curves, number = generator(name), _curves(name), BOUNDARIES[name]
    truth = STEPS[curves[:number].argmin(1)]
    right, covered = [], []
    for _ in range(repetitions):
        noise = np.array([correlated(g, len(STEPS), 0.5, 0.03) for _ in curves])
        points = find_stages(table(curves + noise)).turning_points.iloc[:2]
        right.append(int(points["boundary"].sum()) == number)
        if right[-1]:
            points = points[points["boundary"]]
            covered += ((points["lo"] <= truth) & (truth <= points["hi"])).tolist()
    return [
        share(f"apart, as many boundaries as planted: {name}", right, 0.9, "higher"),
        share(f"apart, boundaries covered: {name}", covered, 0.92, "higher"),
    ]
