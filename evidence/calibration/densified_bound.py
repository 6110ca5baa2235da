"""How narrow a boundary's interval could be, of a run that saved every step there.

`python -m evidence.calibration.densified_bound FOLDER` prints the Cramer-Rao bound of the step at which a valley of
fourth
degree has its minimum, beside Gaussian noise as correlated as that of the curve, as a width of 95 %. Generalised least
squares reach it. Most of an oscillation does not count: what does is its power at periods as long as the valley.
"""

import sys
from pathlib import Path

import numpy as np

from stagewise.checkpoints.run_folder import read_table
from stagewise.findings._from_references import _arrays, nested_references
from stagewise.models.process import one_thread
from stagewise.statistics import DEFAULT, Curve
from stagewise.statistics._constants import DEGREE, FINE_POINTS
from stagewise.statistics._curve import thinned
from stagewise.statistics._differences import noise, smoothed
from stagewise.statistics._fading import Stretch, noise_like
from stagewise.statistics._turning_points import _after, _polynomials, _resampled, _valley
from stagewise.table import select

DRAWS, DEVIATIONS = 5000, 3.92
"""Draws of the noise, and the width of 95 % in deviations."""


def least_widths(curve: Curve) -> list[float]:
    """Return the least width, in steps, for the noise of training alone, and with the sampling of the probe batch."""
    coarse, generator = thinned(curve), np.random.default_rng(0)
    values = coarse.values
    t, near = int(smoothed(values).argmin()), DEFAULT.neighbours
    part = _valley(smoothed(values), t, float(noise(values[max(t - near, 0) : t + near + 1])))
    inside = (curve.steps >= coarse.steps[part.start]) & (curve.steps <= coarse.steps[part.stop - 1])
    steps, within, _ = curve.take(inside)
    u = np.log1p(steps)
    fine = np.linspace(u[0], u[-1], 10 * FINE_POINTS)
    columns = _polynomials(u, DEGREE)
    draws = noise_like(Stretch(steps, within, columns), _after(curve, steps[-1]), generator, DRAWS)
    weighted = np.linalg.solve(np.cov(draws.T), columns)
    estimate = np.linalg.solve(columns.T @ weighted, weighted.T)
    shapes = _polynomials(fine, DEGREE) @ estimate
    sampled = _resampled(curve, DRAWS, generator)[:, inside]
    fit = columns @ np.linalg.lstsq(columns, within, rcond=None)[0]
    minima = [fine[(shapes @ (fit + each).T).argmin(0)] for each in (draws, draws + sampled)]
    return [DEVIATIONS * float(np.expm1(each).std()) for each in minima]


def main(folder: Path) -> None:
    """Print a line for each nested reference but the complete one."""
    one_thread()
    table = read_table(folder)
    kl = select(table, "KLToReference", "kl")
    for name in nested_references(kl)[:-1]:
        training, both = least_widths(_arrays(kl[kl["reference"] == name]))
        print(f"KL to {name}: {training:.1f} steps, {both:.1f} with the sampling of the batch")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
