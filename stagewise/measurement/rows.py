"""From a probe's readings to rows of the table: batch means, and their intervals from resampled sequences."""

import numpy as np
import pandas as pd

from stagewise.probe import Reading
from stagewise.table import LEVEL, LabelledArray

MAX_WITH_RESAMPLES = 32
"""A reading of at most this many values keeps its resampled values: stages resample whole curves."""


def bootstrap_weights(n: int, resamples: int, seed: int = 0) -> np.ndarray:
    """Return how often each of n sequences occurs in each resample, divided by n: [resample, sequence].

    The same for every checkpoint, so that a resample is of whole curves.
    """
    generator = np.random.default_rng(seed)
    return generator.multinomial(n, np.full(n, 1 / n), size=resamples) / n


def rows(reading: Reading, weights: np.ndarray) -> pd.DataFrame:
    """Turn a reading into rows: values, percentile intervals (95 %), n sequences, and a scalar curve's resamples.

    Args:
        reading: of one checkpoint.
        weights: from `bootstrap_weights`, [resample, sequence].
    """
    names = reading.axes.split()
    per_sequence = names[:1] == ["batch"]
    values = reading.values.detach().to("cpu").double().numpy()
    resampled = None
    if per_sequence:
        names = names[1:]
        statistic = reading.statistic or (lambda means: means)
        n = len(values)
        resampled = statistic((weights @ values.reshape(n, -1)).reshape(-1, *values.shape[1:]))
        values = statistic(values.mean(0))
    frame = LabelledArray(" ".join(names), np.asarray(values), reading.quantity, reading.labels).frame()
    if resampled is not None:
        flat = resampled.reshape(len(resampled), -1)
        tail = (1 - LEVEL) / 2
        lo, hi = np.quantile(flat, (tail, 1 - tail), axis=0)
        # A maximum over noise is larger in every resample, a constant differs by rounding: include the value.
        frame["lo"], frame["hi"] = np.minimum(lo, frame["value"]), np.maximum(hi, frame["value"])
        frame["n"] = n
        if flat.shape[1] <= MAX_WITH_RESAMPLES:
            frame["resamples"] = pd.Series(list(flat.T.astype(np.float32)), dtype=object)
    return frame
