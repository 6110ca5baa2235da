"""Whether a curve ever speeds up: the test of an onset against diminishing returns, straight lines and noise."""

import functools
import itertools
from typing import NamedTuple

import numpy as np

from stagewise.detection.criteria import DEFAULT, StageCriteria
from stagewise.detection.noise import noise

CHUNK = 1000
"""Simulated curves that are in memory at a time."""

ROUNDING = 1e-6
"""Noise below this part of a curve's range is rounding of float32."""


class Contrasts(NamedTuple):
    """Comparisons of three windows of checkpoints, each with norm one: [contrast, checkpoint].

    `bend` is the chord from the first to the third window less the second one, `chord` the third less the first,
    `start` the first checkpoint that takes part.
    """

    bend: np.ndarray
    chord: np.ndarray
    start: np.ndarray


def acceleration(steps: np.ndarray, values: np.ndarray, start: int = 0, criteria: StageCriteria = DEFAULT) -> float:
    """Return the p-value of the strongest upward bend of a curve under "the curve never accelerates, and has noise".

    The null is any concave function of the optimiser step: a constant, a rise that is straight in the step or in its
    logarithm, a saturating power law, an exponential approach. For every three consecutive windows of checkpoints, a
    concave curve has its middle mean on the chord of the outer two or above it, so that the largest distance below
    the chord, in standard deviations of the noise, is at most what noise on a straight line gives. That distribution
    is simulated, with the noise estimated anew in each simulated curve.

    Args:
        steps: ascending, each once.
        values: finite, one a step.
        start: bends that begin before this checkpoint do not count; this makes the p-value larger, never smaller.
        criteria: `compared` and `null_curves` count.

    Source: Dümbgen and Spokoiny (2001), Multiscale testing of qualitative hypotheses, Annals of Statistics 29,
    124-152, the test of concavity, with windows in place of kernels and no correction for scale.

    >>> steps = np.arange(0, 400, 10)
    >>> acceleration(steps, np.log1p(steps)) > 0.5, acceleration(steps, 1.0 * (steps > 200)) < 0.001
    (True, True)
    """
    together = -(-len(steps) // criteria.compared)
    values, places = _averaged(values, together), tuple(_averaged(steps, together).tolist())
    contrasts, null = _contrasts(places), _null(places, criteria.null_curves)
    if not len(null):
        return 1.0
    upwards = (contrasts.start >= start / together) & (contrasts.chord @ values > 0)
    sigma = max(float(noise(values)), ROUNDING * float(np.ptp(values)))
    if sigma == 0 or not upwards.any():
        return 1.0
    strongest = (contrasts.bend[upwards] @ values).max() / sigma
    return float((1 + len(null) - np.searchsorted(null, strongest)) / (1 + len(null)))


def _averaged(values: np.ndarray, together: int) -> np.ndarray:
    """Average so many neighbouring checkpoints, leaving out the first ones that do not fill a group."""
    groups: np.ndarray = values[len(values) % together :].reshape(-1, together).astype(float).mean(1)
    return groups


@functools.lru_cache(maxsize=8)
def _contrasts(steps: tuple[float, ...]) -> Contrasts:
    times, n = np.asarray(steps, dtype=float), len(steps)
    lengths = [3**power for power in range(n) if 3**power <= n]
    bends, chords, starts = [], [], []
    for sizes in itertools.product(lengths, repeat=3):
        for start in range(n - sum(sizes) + 1):
            edges = start + np.cumsum((0, *sizes))
            windows = np.zeros((3, n))
            for window, lo, hi in zip(windows, edges[:-1], edges[1:], strict=True):
                window[lo:hi] = 1 / (hi - lo)
            first, middle, last = windows @ times
            weight = (last - middle) / (last - first)
            bend = weight * windows[0] + (1 - weight) * windows[2] - windows[1]
            bends.append(bend / np.linalg.norm(bend))
            chords.append(windows[2] - windows[0])
            starts.append(start)
    return Contrasts(np.reshape(bends, (-1, n)), np.reshape(chords, (-1, n)), np.asarray(starts))


@functools.lru_cache(maxsize=8)
def _null(steps: tuple[float, ...], simulations: int) -> np.ndarray:
    """Return the strongest bend of simulated noise, in units of its estimated deviation, ascending."""
    bend = _contrasts(steps).bend.T.astype(np.float32)
    if not bend.size:
        return np.empty(0)
    generator = np.random.default_rng(0)
    strongest = []
    for start in range(0, simulations, CHUNK):
        draws = generator.standard_normal((min(CHUNK, simulations - start), len(steps)), dtype=np.float32)
        strongest.append((draws @ bend).max(1) / noise(draws))
    return np.sort(np.concatenate(strongest))
