"""The null distribution of the scan: what `statistics/_scan.py` holds, simulated anew.

`python -m evidence.calibration.null_table [repetitions]` prints its two tables; as cases of the calibration the rows
say
how often noise without a transition falls below a p-value of .05 by these tables.
"""

import functools
import sys
from collections.abc import Iterator

import numpy as np

from evidence.calibration.cases import SMOOTH, checkpoints, correlated
from evidence.calibration.onsets import Job
from evidence.calibration.rows import Row, share
from stagewise.statistics._constants import NULL_CHECKPOINTS, NULL_CORRELATIONS
from stagewise.statistics._noise.residual import without_outliers
from stagewise.statistics._refinement import Context, refine
from stagewise.statistics._scan import bases, floors, smooth_fits, transition_fits
from stagewise.statistics._transition import p_value

SHAPES = ("flat", "log drift", "exponential", "power decay")
PLANTED = (0.0, 0.0, 0.3, 0.5, 0.7, 0.9, 0.95)
"""Correlations of the simulated noise; in half of the cases its level changes by a factor of e^2 over the run."""

CLASSES = (-1.0, 0.1, 0.5, 0.75, 0.9, 1.0)
"""Edges of the estimated correlation; NULL_CORRELATIONS are the middles."""

REFINED = 0.6
"""Quantile of the statistic from which the best transition is refined, as it is where one is found."""

FEWEST = 20
"""Curves of a class that tell its quantiles."""


def jobs() -> Iterator[tuple[str, Job]]:
    """Yield every case by its name."""
    for number in NULL_CHECKPOINTS:
        yield f"null table {number}", functools.partial(_p_values, number)


def statistics(number: int, repetitions: int) -> np.ndarray:
    """Return the statistic and the estimated correlation of curves without a transition: [curve, 2]."""
    rows = []
    for spacing in ("lin", "log"):
        steps = checkpoints(spacing, number)
        basis = bases(tuple(steps.tolist()))
        for shape in SHAPES:
            g = np.random.default_rng(number + len(shape))
            rates, growths = g.choice(PLANTED, repetitions), g.choice([0, 0, -2, 2], repetitions)
            levels = np.exp(growths[:, None] * np.linspace(-0.5, 0.5, number))
            noise = np.array([correlated(g, number, rate, 0.03) for rate in rates])
            curves = without_outliers(np.array([SMOOTH[shape](g, steps) for _ in rates]) + levels * noise)
            floor = floors(curves)
            null = smooth_fits(curves, basis, floor)
            one = transition_fits(curves, basis, floor, null.kind)
            statistic, correlation = 2 * (one.likelihood - null.likelihood), one.correlation.copy()
            for i in np.flatnonzero(statistic > np.quantile(statistic, REFINED)):
                context = Context(curves[i], basis, np.empty((0, number)), float(floor[i]))
                best = refine(context, basis.shapes.take([int(one.shape[i])]), int(one.kind[i])).best
                full = smooth_fits(curves[[i]], basis, floor[[i]], best.at(basis.u))
                refined = 2 * float(full.likelihood[0] - null.likelihood[i])
                if refined > statistic[i]:
                    statistic[i], correlation[i] = refined, full.correlation[0]
            rows.append(np.stack([statistic, correlation], 1))
    return np.concatenate(rows)


def _p_values(number: int, repetitions: int) -> list[Row]:
    """Return how often p < .05, by the correlation that is estimated; of so many curves a spacing and shape."""
    curves, rows = statistics(number, repetitions), []
    for middle, part in _classes(curves):
        below = (p_value(part[:, 0], number, part[:, 1]) < 0.05).tolist()
        if len(below) >= FEWEST:
            rows.append(share(f"p < .05 of nulls, {number} checkpoints, correlation {middle}", below, 0.05, "lower"))
    return rows


def _classes(curves: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    for middle, low, high in zip(NULL_CORRELATIONS, CLASSES[:-1], CLASSES[1:], strict=True):
        yield middle, curves[(curves[:, 1] >= low) & (curves[:, 1] < high)]


def main(repetitions: int) -> None:
    """Print the medians and the twentieths, a row a number of checkpoints; "few" where a class has too few curves."""
    for number in NULL_CHECKPOINTS:
        for name, level in (("median", 0.5), ("twentieth", 0.95)):
            parts = [part[:, 0] for _, part in _classes(statistics(number, repetitions))]
            cells = [f"{np.quantile(part, level):.1f}" if len(part) >= FEWEST else "few" for part in parts]
            print(f"{number:4} checkpoints, {name:9}: {', '.join(cells)}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
