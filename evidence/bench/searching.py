"""The search for transitions beside PELT of ruptures, where that is installed: a table of heads' curves."""

import functools
import importlib.util
from collections.abc import Callable, Iterator

import numpy as np

from evidence.bench.timing import Row, ratio, timed_in_turn
from evidence.calibration.cases import logistic
from evidence.calibration.rivals import Times
from evidence.records.rivals import kernel, pelt
from stagewise.statistics import find_transitions

STEPS = np.array([0.0, *2 ** np.arange(10), *range(1000, 144_000, 1000)])
"""Of a public suite: Pythia's 154 checkpoints."""

HEADS = 144

NOISE = 0.03
"""Deviation of white noise, beside changes of .4 and .6."""


def beside_pelt() -> Iterator[Row]:
    """CPU time of the search over that of PELT, by least squares and by a Gaussian kernel."""
    if importlib.util.find_spec("ruptures") is None:
        print("search over PELT: left out, ruptures is not installed", flush=True)
        return
    curves, u = planted(np.random.default_rng(0)), np.log1p(STEPS)
    ours = functools.partial(find_transitions, STEPS, curves)
    for name, theirs, goal in (("l2", pelt, 0.24), ("rbf", kernel, None)):
        pairs = timed_in_turn(ours, functools.partial(_each, theirs, u, curves), pairs=5)
        yield ratio(f"search of 144 curves of 154 checkpoints over PELT, {name} (ruptures)", pairs, goal)


def planted(draw: np.random.Generator) -> np.ndarray:
    """Return curves [head, step]: a logarithm, nothing, one rise, two rises, in turn, with noise."""
    u = np.log1p(STEPS)

    def rise(lo: float, hi: float) -> np.ndarray:
        return logistic(STEPS, np.expm1(draw.uniform(lo, hi)), 0.1)

    kinds = (lambda: 0.025 * u, lambda: 0 * u, lambda: 0.6 * rise(5, 10), lambda: 0.6 * rise(5, 8) + 0.4 * rise(8, 11))
    return np.stack([kinds[i % 4]() + NOISE * draw.standard_normal(len(u)) for i in range(HEADS)])


def _each(search: Callable[[np.ndarray, np.ndarray], Times], u: np.ndarray, curves: np.ndarray) -> list[Times]:
    return [search(u, curve) for curve in curves]


ROWS = (beside_pelt,)
