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
from stagewise.statistics._refinement import Refined
from stagewise.statistics._transitions import _stands


def ranks(runs: list[Drawn]) -> np.ndarray:
    """Return the posterior probability of earlier times than the true ones: [run with an onset near, part]."""
    results = []
    for one in runs:
        posteriors = list[tuple[float, Refined]]()
        read = Refined.quantiles

        def noted(self: Refined, *known: Any, posteriors: Any = posteriors, read: Any = read) -> np.ndarray:
            times = read(self, *known)
            posteriors.append((times[1, 0], self))
            return np.asarray(times)

        with patch.object(Refined, "quantiles", noted):
            (found,) = find_transitions(one.steps, one.curve[None])
        truth = np.log1p(one.times)
        halves = [each.times[1, 0] for each in found.transitions if _stands(each)]
        if halves:
            half = min(halves, key=lambda each: abs(each - truth[1]))
            posterior = next(each for middle, each in posteriors if middle == half)
            results.append((posterior.shapes.times() < truth).T @ posterior.weights)
    return np.array(results)


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
