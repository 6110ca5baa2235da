"""What the second opinion contests: of onsets that were planted, and of those that were not."""

import itertools
from collections.abc import Iterator

import numpy as np

from calibration.cases import NOISES, PLANTED, SMOOTH, checkpoints, correlated
from calibration.onsets import RISE, RISES, Job, generator
from calibration.rows import Row, share
from calibration.specials import HELD_OUT, SPECIALS
from stagewise.findings.second_opinion import breaks
from stagewise.statistics import DEFAULT, Transition, find_transitions
from stagewise.statistics._decisions import rejection

CHECKPOINTS = 60


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for spacing in ("lin", "log"):
        yield f"second opinion on planted onsets {spacing}", _of_planted(spacing)
        yield f"second opinion on false onsets {spacing}", _of_nulls(spacing)


def _of_planted(spacing: str) -> Job:
    def run(repetitions: int) -> list[Row]:
        steps, rows = checkpoints(spacing, CHECKPOINTS), []
        for noise, (ratio, correlation) in RISES.items():
            said: list[bool] = []
            for name, plant in PLANTED.items():
                g = generator(f"second opinion, {name}, {noise}, {spacing}")
                deviation = RISE / ratio / np.sqrt(1 - correlation**2)
                levels = [0.1 + RISE * plant(g, steps).values for _ in range(repetitions)]
                noises = [correlated(g, len(steps), correlation, deviation) for _ in range(repetitions)]
                said += _said(steps, np.array(levels) + np.array(noises))
            rows.append(share(f"contested of planted onsets: {noise}, {spacing} 60", said, 0.05, "lower"))
        return rows

    return run


def _of_nulls(spacing: str) -> Job:
    def run(repetitions: int) -> list[Row]:
        steps, said = checkpoints(spacing, CHECKPOINTS), list[bool]()
        for (shape, smooth), noise in itertools.product(SMOOTH.items(), NOISES):
            g = generator(f"second opinion, {shape}, {noise}, {spacing}")
            said += _said(
                steps, np.array([smooth(g, steps) + NOISES[noise](g, len(steps)) for _ in range(repetitions)])
            )
        for name, special in {**SPECIALS, **HELD_OUT}.items():
            g = generator(f"second opinion, {name}, {spacing}")
            said += _said(steps, np.array([special(g, steps) for _ in range(repetitions)]))
        return [share(f"contested of false onsets: all nulls, {spacing} 60", said, 0.5, "higher")]

    return run


def _said(steps: np.ndarray, curves: np.ndarray) -> list[bool]:
    """Return of each onset that is found whether it is contested."""
    return [
        _contested(steps, curve, one)
        for curve, found in zip(curves, find_transitions(steps, curves), strict=True)
        for one in found.transitions
        if rejection(one, one.p_value, DEFAULT, "") is None
    ]


def _contested(steps: np.ndarray, curve: np.ndarray, one: Transition) -> bool:
    """What `find_second_opinion` says, without the cost of a table."""
    t10, _, t90 = np.expm1(one.times[:, 0])
    return not breaks(steps, curve, one.noise, t10, t90)
