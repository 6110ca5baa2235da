"""Simulation-based calibration: where the true t10, t50 and t90 lie in the posterior that intervals are read from.

`python -m evidence.calibration.ranks [runs]` draws runs (`evidence.calibration.drawn`) and prints the deciles of
these ranks, which are
uniform where the posterior is right: fewer at the ends where it is too wide, more at one end where it leans.

Source: Talts et al. (2018), Validating Bayesian inference algorithms with simulation-based calibration.
"""

import sys
from typing import Any
from unittest.mock import patch

import numpy as np

from evidence.calibration.drawn import CLEAR, FIXED, Drawn, draw
from stagewise.models.process import one_thread
from stagewise.statistics import find_transitions
from stagewise.statistics._effects import _model


def ranks(runs: list[Drawn]) -> np.ndarray:
    """Return the posterior probability of earlier times than the true ones: [run with an onset near, part]."""
    results, read = [], _model._quantiles
    for one in runs:
        mixtures = list[tuple[float, tuple[np.ndarray, ...]]]()

        def noted(*mixture: np.ndarray, mixtures: Any = mixtures) -> np.ndarray:
            times = read(*mixture)
            mixtures.append((float(times[0]), mixture))
            return times

        with patch.object(_model, "_quantiles", noted):
            (model,) = find_transitions(one.steps, one.curve[None])
        truth = np.log1p(one.times)
        halves = [float(each.times[1, 0]) for each in model.transitions]
        if halves:
            half = min(halves, key=lambda each: abs(each - truth[1]))
            place = next((i for i in range(1, len(mixtures), 3) if mixtures[i][0] == half), None)
            if place is not None:
                of_parts = [mixture for _, mixture in mixtures[place - 1 : place + 2]]
                results.append([_below(time, *mixture) for time, mixture in zip(truth, of_parts, strict=True)])
    return np.array(results)


def _below(time: float, middle: np.ndarray, cell: np.ndarray, weight: np.ndarray) -> float:
    """Return the probability of earlier times under a mixture of uniform distributions over cells."""
    some = weight > 0
    part = ((time - middle[some]) / np.maximum(cell[some], 1e-9) + 0.5).clip(0, 1)
    return float(part @ weight[some] / weight[some].sum())


def main(number: int) -> None:
    """Print the ranks of clear transitions: deciles, and the shares in central parts."""
    one_thread()
    generator = np.random.default_rng([FIXED, 2])
    drawn = (draw(generator, planted=True) for _ in range(number))
    found = ranks([one for one in drawn if one.size >= CLEAR])
    print("| time | runs | by decile | mean | in the central .5; .8; .95 |")
    print("| --- | --- | --- | --- | --- |")
    for name, each in zip(("t10", "t50", "t90"), found.T, strict=True):
        deciles = " ".join(map(str, np.histogram(each, np.linspace(0, 1, 11))[0]))
        central = "; ".join(f"{(abs(each - 0.5) <= part / 2).mean():.2f}" for part in (0.5, 0.8, 0.95))
        print(f"| {name} | {len(each)} | {deciles} | {each.mean():.2f} | {central} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
