"""What planted truths are made of: rises, noise, and a generator a case."""

import zlib

import numpy as np

Generator = np.random.Generator

LAST = 3000.0
"""The last step of a planted run."""


def generator(name: str) -> Generator:
    """Return the generator of a case, the same in every order of cases."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def logistic(t: np.ndarray, at: float, width: float) -> np.ndarray:
    """Return a sigmoid in log(1 + step), `width` e-folds wide."""
    return np.asarray(0.5 * (1 + np.tanh((np.log1p(t) - np.log1p(at)) / (2 * width))))


def correlated(g: Generator, n: int, correlation: float, deviation: float) -> np.ndarray:
    """Return AR(1) noise with this marginal standard deviation."""
    noise = g.standard_normal(n)
    noise[1:] *= np.sqrt(1 - correlation**2)
    for i in range(1, n):
        noise[i] += correlation * noise[i - 1]
    return deviation * noise
