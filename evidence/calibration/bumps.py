"""Small changes late in losses that fell by several nats early: how often they are found, and smooth losses are not."""

from collections.abc import Iterator

import numpy as np

from evidence.calibration.cases import Generator, logistic
from evidence.calibration.onsets import Job, alone, generator
from evidence.calibration.rows import Row, share

LAST, CHECKPOINTS = 20_000, 100
"""The last step, and how many checkpoints there are."""

LOSSES = {
    "power law": lambda t: 2.2 + 8 * (1 + t / 50) ** -0.4,
    "steeper power law": lambda t: 2.2 + 8 * (1 + t / 300) ** -0.7,
    "power law and exponential": lambda t: 2 + 5 * (1 + t / 40) ** -0.5 + 1.5 * np.exp(-t / 3000),
    "stretched exponential": lambda t: 2 + 6 * np.exp(-((t / 1500) ** 0.5)),
    "two exponentials": lambda t: 2 + 4 * np.exp(-t / 600) + 2 * np.exp(-t / 6000),
}
"""Smooth losses, nats."""

NOISE = 0.015
"""Deviation of white noise, nats."""

BUMPS = {"0.3 nats, .05": (0.3, 0.05), "0.6 nats, .09": (0.6, 0.09)}
"""Falls that are planted: their size and their width in e-folds."""


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for spacing in ("lin", "log"):
        for name in BUMPS:
            yield f"bump, {name}, {spacing}", _job(f"bump, {name}, {spacing}", spacing, *BUMPS[name])


def _job(name: str, spacing: str, size: float, width: float) -> Job:
    def run(repetitions: int) -> list[Row]:
        draw, steps = generator(name), _steps(spacing)
        smooth, found, covered = list[bool](), list[bool](), list[bool]()
        for loss in LOSSES.values():
            at = np.exp(draw.uniform(np.log(1200), np.log(12_000), repetitions))
            curves = np.stack([_noisy(loss(steps), draw) for _ in range(repetitions)])
            smooth += [len(each) > 0 for each in alone(steps, curves)]
            bumps = np.stack([size * logistic(steps, step, width) for step in at])
            for step, onsets in zip(at, alone(steps, curves - bumps), strict=True):
                near = onsets[np.abs(np.log(onsets["t50"] / step)) < np.log(2)]
                found.append(len(near) > 0)
                covered += [bool(row["t50_lo"] <= step <= row["t50_hi"]) for row in near.to_dict("records")]
        return [
            share(f"false onsets: {name}", smooth, 0.05, "lower"),
            share(f"found: {name}", found, 0.5, "higher"),
            share(f"t50 covered: {name}", covered, 0.9, "higher"),
        ]

    return run


def _noisy(loss: np.ndarray, draw: Generator) -> np.ndarray:
    return np.asarray(loss + NOISE * draw.standard_normal(len(loss)))


def _steps(spacing: str) -> np.ndarray:
    if spacing == "lin":
        return np.linspace(0, LAST, CHECKPOINTS).round()
    return np.unique(np.concatenate([[0.0], np.geomspace(1, LAST, CHECKPOINTS - 1).round()]))
