"""When a rise has come 10, 50 and 90 % of its way, each with an interval: noise, resampled batch, spacing."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression

from stagewise.detection.rises import Rise
from stagewise.detection.turning_points import QUANTILE
from stagewise.table import LEVEL

PARTS = (0.1, 0.5, 0.9)
RESAMPLES = 200

SAME = 1e-6
"""Steps that going to the logarithm and back may differ by."""


class Time(NamedTuple):
    """A step between two checkpoints, and two that hold it (95 %); hi is infinite where no checkpoint shows its end."""

    step: float
    lo: float
    hi: float


def rise_times(curve: pd.DataFrame, found: Rise, seed: int = 0) -> tuple[Time, Time, Time]:
    """Return t10, t50 and t90: when an isotonic fit passes these parts of the way between the medians around it.

    The intervals come from curves with new noise and, where the table has them, resamples of the batch (or else `lo`
    and `hi`, taken as independent), and are widened to the checkpoints around them: what happens between two
    checkpoints was not seen.

    Args:
        curve: rows of one curve in the order of their steps, with `step` and `value`, upwards being good.
        found: its rise.
        seed: of the noise.
    """
    steps, values = curve["step"].to_numpy(float), curve["value"].to_numpy(float)
    edges = found.edges
    fit = values.copy()
    fit[edges.all] = isotonic_regression(values[edges.all]).x
    sigma = np.where(np.arange(len(values)) <= (edges.low + edges.high) / 2, *found.deviation)
    generator = np.random.default_rng(seed)
    draws = fit + generator.standard_normal((RESAMPLES, len(values))) * sigma + _sampling(curve, generator)
    crossings = np.array([_crossings(steps, draw, found) for draw in draws])
    t10, t50, t90 = (
        _time(step, drawn, steps) for step, drawn in zip(_crossings(steps, values, found), crossings.T, strict=True)
    )
    return t10, t50, t90


def _crossings(steps: np.ndarray, values: np.ndarray, found: Rise) -> list[float]:
    """Return when the isotonic fit first passes each part of the rise, between checkpoints in log(1 + step)."""
    base, top = found.edges.levels(values)
    fit = isotonic_regression(values[found.edges.all]).x
    times = np.log1p(steps[found.edges.all])
    passed = []
    for level in base + np.array(PARTS) * (top - base):
        past = np.flatnonzero(fit >= level)
        i = int(past[0]) if len(past) else len(fit) - 1
        way = (level - fit[i - 1]) / (fit[i] - fit[i - 1]) if i > 0 and fit[i] > fit[i - 1] else 1.0
        passed.append(float(np.expm1(times[i] + (min(way, 1.0) - 1) * (times[i] - times[max(i - 1, 0)]))))
    return passed


def _time(step: float, draws: np.ndarray, steps: np.ndarray) -> Time:
    tail = (1 - LEVEL) / 2
    lo, hi = np.quantile(draws, (tail, 1 - tail))
    before, after = steps[steps <= min(lo, step) + SAME], steps[steps >= max(hi, step) - SAME]
    # The last checkpoint alone does not show that a level was reached for good.
    return Time(step, float(before[-1]), float(after[0]) if len(after) > 1 else float("inf"))


def _sampling(curve: pd.DataFrame, generator: np.random.Generator) -> np.ndarray | float:
    """Return what RESAMPLES resamples of the probe batch add to the curve: [resample, step]."""
    if "resamples" in curve and curve["resamples"].notna().all():
        resampled = np.stack(curve["resamples"].to_list()).T
        return np.asarray(generator.choice(resampled, RESAMPLES) - curve["value"].to_numpy(float))
    if {"lo", "hi"} <= set(curve.columns) and curve[["lo", "hi"]].notna().all(axis=None):
        deviation = (curve["hi"] - curve["lo"]).to_numpy(float) / (2 * QUANTILE)
        return np.asarray(deviation * generator.standard_normal((RESAMPLES, len(curve))))
    return 0.0
