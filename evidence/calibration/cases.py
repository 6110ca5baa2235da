"""Curves with planted findings, and curves with none: shapes, noise and spacings of checkpoints, each with a name."""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

LAST = 3000.0
"""The last optimiser step of a planted run."""

Generator = np.random.Generator


def checkpoints(spacing: str, number: int) -> np.ndarray:
    """Return so many steps from 0 to LAST, equally spaced in the step ("lin") or from 1 on in its logarithm ("log")."""
    if spacing == "lin":
        return np.linspace(0, LAST, number).round()
    wanted = number
    while True:
        steps = np.unique(np.concatenate([[0.0], np.geomspace(1, LAST, wanted).round()]))
        if len(steps) >= number:
            return np.delete(steps, np.arange(5, 5 + len(steps) - number)) if len(steps) > number else steps
        wanted += 1


def correlated(generator: Generator, n: int, correlation: float, deviation: float) -> np.ndarray:
    """Return AR(1) noise with this marginal standard deviation."""
    noise = generator.standard_normal(n)
    noise[1:] *= np.sqrt(1 - correlation**2)
    for i in range(1, n):
        noise[i] += correlation * noise[i - 1]
    return deviation * noise


NOISES: dict[str, Callable[[Generator, int], np.ndarray]] = {
    "white": lambda g, n: 0.03 * g.standard_normal(n),
    "AR .5": lambda g, n: correlated(g, n, 0.5, 0.03),
    "AR .9": lambda g, n: correlated(g, n, 0.9, 0.03),
    "growing": lambda g, n: np.geomspace(0.005, 0.08, n) * g.standard_normal(n),
    "shrinking": lambda g, n: np.geomspace(0.08, 0.005, n) * g.standard_normal(n),
}

SMOOTH: dict[str, Callable[[Generator, np.ndarray], np.ndarray]] = {
    "flat": lambda g, t: 0.1 + 0 * t,
    "power growth": lambda g, t: 0.1 + 0.7 * (t / LAST) ** g.uniform(0.3, 0.8),
    "log drift": lambda g, t: 0.05 + 0.7 * np.log1p(t) / np.log1p(LAST),
    "linear drift": lambda g, t: 0.05 + 0.7 * t / LAST,
    "exponential": lambda g, t: 0.9 * (1 - np.exp(-t / np.exp(g.uniform(np.log(30), np.log(2000))))),
    "power decay": lambda g, t: 0.9 * (1 + t / g.uniform(1, 100)) ** -g.uniform(0.2, 1),
    "t^1.2": lambda g, t: 0.1 + 0.7 * (t / LAST) ** 1.2,
}


def logistic(t: np.ndarray, at: float, width: float) -> np.ndarray:
    """Return a sigmoid in log(1 + step), `width` e-folds wide."""
    return np.asarray(0.5 * (1 + np.tanh((np.log1p(t) - np.log1p(at)) / (2 * width))))


def ramp(t: np.ndarray, start: float, end: float) -> np.ndarray:
    """Return a straight rise between two steps."""
    return np.clip((t - start) / (end - start), 0, 1)


def tail(t: np.ndarray, at: float, exponent: float) -> np.ndarray:
    """Return an abrupt onset that approaches its level as a power of the step."""
    return np.where(t > at, 1 - (np.maximum(t, at) / at) ** -exponent, 0.0)


class Planted(NamedTuple):
    """A curve without noise that rises by one overall unit, and its true t10, t50, t90: [transition, part]."""

    values: np.ndarray
    times: np.ndarray


def _place(g: Generator, steps: np.ndarray, lo: float = 0.2, hi: float = 0.7) -> float:
    index = g.uniform(lo, hi) * (len(steps) - 1)
    return float(np.interp(index, np.arange(len(steps)), steps))


def _logistic(g: Generator, t: np.ndarray, width: float, lo: float = 0.2, hi: float = 0.7) -> Planted:
    at = _place(g, t, lo, hi)
    parts = np.log(1 / 9), 0.0, np.log(9)
    return Planted(logistic(t, at, width), np.expm1(np.log1p(at) + width * np.array([parts])))


def _ramp(g: Generator, t: np.ndarray) -> Planted:
    start = _place(g, t, 0.2, 0.5)
    end = start * 1.5 + 5 * LAST / len(t) * (t[1] > 10)
    return Planted(ramp(t, start, end), start + np.array([[0.1, 0.5, 0.9]]) * (end - start))


def _tail(g: Generator, t: np.ndarray, exponent: float) -> Planted:
    at = _place(g, t, 0.15, 0.45)
    return Planted(tail(t, at, exponent), at * (1 - np.array([[0.1, 0.5, 0.9]])) ** (-1 / exponent))


def _two(g: Generator, t: np.ndarray, first: float, second: float) -> Planted:
    a, b = _logistic(g, t, 0.08, 0.2, 0.35), _logistic(g, t, 0.08, 0.6, 0.75)
    return Planted(first * a.values + second * b.values, np.concatenate([a.times, b.times]))


def _staircase(g: Generator, t: np.ndarray, number: int) -> Planted:
    places = np.linspace(0.15, 0.95, number + 1)
    steps = [_logistic(g, t, 0.16 / number, lo, (lo + hi) / 2) for lo, hi in itertools.pairwise(places)]
    return Planted(np.sum([one.values for one in steps], 0), np.concatenate([one.times for one in steps]))


def _on_power_law(g: Generator, t: np.ndarray) -> Planted:
    one = _logistic(g, t, 0.1)
    return Planted(one.values + 2 * (1 - (1 + t / 20) ** -0.5), one.times)


def _double_descent(g: Generator, t: np.ndarray) -> Planted:
    two = _two(g, t, 1.0, -0.9)
    return Planted(two.values + 2 * (1 + t / 20) ** -0.5, two.times)


PLANTED: dict[str, Callable[[Generator, np.ndarray], Planted]] = {
    "sigmoid .05": lambda g, t: _logistic(g, t, 0.05),
    "sigmoid .1": lambda g, t: _logistic(g, t, 0.1),
    "sigmoid .3": lambda g, t: _logistic(g, t, 0.3),
    "sigmoid of a decade": lambda g, t: _logistic(g, t, 0.524, 0.35, 0.6),
    "ramp": _ramp,
    "tail t^-2": lambda g, t: _tail(g, t, 2.0),
    "tail t^-1": lambda g, t: _tail(g, t, 1.0),
    "tail t^-.5": lambda g, t: _tail(g, t, 0.5),
    "two equal rises": lambda g, t: _two(g, t, 1.0, 1.0),
    "four equal rises": lambda g, t: _staircase(g, t, 4),
    "six equal rises": lambda g, t: _staircase(g, t, 6),
    "rise and fall": lambda g, t: _two(g, t, 1.0, -0.9),
    "late, at 85 %": lambda g, t: _logistic(g, t, 0.05, 0.83, 0.85),
    "fall": lambda g, t: (lambda p: Planted(-p.values, p.times))(_logistic(g, t, 0.1)),
    "power law and jump": _on_power_law,
    "double descent": _double_descent,
}
