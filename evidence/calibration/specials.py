"""Curves without an onset that are no smooth curve with simple noise: what runs really show, and shapes kept apart."""

from collections.abc import Callable

import numpy as np

from evidence.calibration.cases import LAST, Generator, correlated

Maker = Callable[[Generator, np.ndarray], np.ndarray]


def _flat(g: Generator, t: np.ndarray, deviation: float = 0.02) -> np.ndarray:
    return 0.3 + deviation * g.standard_normal(len(t))


def _outliers(g: Generator, t: np.ndarray, width: int, size: float) -> np.ndarray:
    values, at = _flat(g, t), int(g.integers(5, len(t) - 8))
    values[at : at + width] += size
    return values


def _drop(g: Generator, t: np.ndarray) -> np.ndarray:
    decay = 1 + 2 * (1 + t / 30) ** -0.5
    return decay - 0.15 * (t >= 0.6 * LAST) + 0.01 * g.standard_normal(len(t))


def _levels(g: Generator, t: np.ndarray, raised: np.ndarray, quiet: float = 0.01, times: float = 7) -> np.ndarray:
    """Return noise of a level, and of one so many times as large where it is raised, [step]."""
    return np.asarray(quiet * np.where(raised, times, 1) * g.standard_normal(len(t)))


def _jump_of_level(g: Generator, t: np.ndarray) -> np.ndarray:
    late = np.arange(len(t)) >= g.uniform(0.35, 0.65) * len(t)
    return 0.3 + _levels(g, t, late if g.integers(2) else ~late, times=6)


def _burst(g: Generator, t: np.ndarray) -> np.ndarray:
    length = int(g.integers(5, len(t) // 4))
    after = np.arange(len(t)) - g.integers(2, len(t) - length - 2)
    drift = 0.05 + 0.7 * np.log1p(t) / np.log1p(LAST)
    return np.asarray(drift + _levels(g, t, (after >= 0) & (after < length), times=g.uniform(4, 10)))


def _two_bursts(g: Generator, t: np.ndarray) -> np.ndarray:
    part = np.arange(len(t)) / len(t)
    raised = ((part >= 0.2) & (part < 0.32)) | ((part >= 0.65) & (part < 0.77))
    return np.asarray(0.3 + 0.2 * t / LAST + _levels(g, t, raised))


def _overfits(g: Generator, t: np.ndarray) -> np.ndarray:
    part = t / LAST
    rise = (part, part**0.5, np.log1p(t) / np.log1p(LAST))[g.integers(3)]
    fall = 1.5 * np.exp(-part / np.exp(g.uniform(np.log(0.005), np.log(0.05))))
    return np.asarray(0.5 + fall + g.uniform(0.3, 0.8) * rise + 0.02 * g.standard_normal(len(t)))


SPECIALS: dict[str, Maker] = {
    "two outlying checkpoints": lambda g, t: _outliers(g, t, 2, 0.4),
    "a dip of three": lambda g, t: _outliers(g, t, 3, -0.25),
    "a spike of three on a falling loss": lambda g, t: _outliers(g, t, 3, 0.8) + 2 * (1 + t / 30) ** -0.5,
    "random walk": lambda g, t: 0.3 + 0.03 * g.standard_normal(len(t)).cumsum(),
    "slow OU": lambda g, t: 0.5 + correlated(g, len(t), 0.97, 0.1),
    "learning-rate drop at a known step": _drop,
    "exponential fall, then a slow rise": _overfits,
    "two exponentials": lambda g, t: (
        0.8 - 0.4 * np.exp(-t / 40) - 0.3 * np.exp(-t / 900) + 0.02 * g.standard_normal(len(t))
    ),
    "noise bursts in the middle": lambda g, t: (
        _flat(g, t, 0.01) + 0.08 * g.standard_normal(len(t)) * (np.abs(np.arange(len(t)) - len(t) / 2) < 6)
    ),
    "noise whose level jumps": _jump_of_level,
    "a burst of noise on a drift": _burst,
    "two bursts of noise on a drift": _two_bursts,
}


def _stretched(g: Generator, t: np.ndarray) -> np.ndarray:
    return (
        0.1
        + 0.7 * (1 - np.exp(-((t / g.uniform(100, 1500)) ** g.uniform(0.4, 0.9))))
        + 0.02 * g.standard_normal(len(t))
    )


def _heavy(g: Generator, t: np.ndarray) -> np.ndarray:
    return np.asarray(0.2 + 0.5 * np.log1p(t) / np.log1p(LAST) + 0.02 * g.standard_t(3, len(t)))


HELD_OUT: dict[str, Maker] = {
    "stretched exponential": _stretched,
    "power law and linear drift": lambda g, t: (
        1 + (1 + t / 20) ** -0.7 - 0.4 * t / LAST + 0.02 * g.standard_normal(len(t))
    ),
    "heavy tails (t3) on a log drift": _heavy,
    "slow wave": lambda g, t: (
        0.4 + 0.1 * np.sin(2 * np.pi * (t / LAST + g.uniform())) + 0.03 * g.standard_normal(len(t))
    ),
    "rounded to hundredths": lambda g, t: (0.1 + 0.6 * (t / LAST) ** 0.5 + 0.004 * g.standard_normal(len(t))).round(2),
    "moving average of noise": lambda g, t: (
        0.3 + 0.05 * np.convolve(g.standard_normal(len(t) + 4), np.ones(5) / np.sqrt(5), "valid")
    ),
    "sigmoid of three decades": lambda g, t: (
        0.1 + 0.7 * (1 + (300 / np.maximum(t, 0.01)) ** 0.64) ** -1 + 0.02 * g.standard_normal(len(t))
    ),
    "power-law fall, then a slow rise": lambda g, t: (
        1.5 * (1 + t / g.uniform(3, 60)) ** -1
        + g.uniform(0.3, 0.8) * (t / LAST) ** g.uniform(0.5, 1.5)
        + 0.02 * g.standard_normal(len(t))
    ),
    "fast rise, then a slow decay": lambda g, t: (
        0.8 * (1 - np.exp(-t / g.uniform(20, 150))) * (0.5 + 0.5 * np.exp(-t / g.uniform(1000, 6000)))
        + 0.02 * g.standard_normal(len(t))
    ),
    "cosine over the run": lambda g, t: 1 + 0.5 * np.cos(np.pi * t / LAST) + 0.02 * g.standard_normal(len(t)),
}
"""Nulls to which nothing was fitted: looked at once, at the end."""
