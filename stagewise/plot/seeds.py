"""Curves of several runs: seeds with their band."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from stagewise.findings import scores
from stagewise.plot.axes import new_axes, ordered_colours, set_step_axis
from stagewise.plot.curves import BLACK, finish, quantity_of, set_value_axis
from stagewise.statistics import FEWEST_SEEDS, LEVEL
from stagewise.table import select
from stagewise.words import curve_label

_LINES = 8
"""Curves of one figure, of more those that moved most."""


class _Band(NamedTuple):
    """A curve over seeds: the mean, its 95 % interval (Student's; of three or fewer the range), their values."""

    steps: np.ndarray
    mean: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    each: np.ndarray


def _band(rows: pd.DataFrame) -> _Band:
    """Return the mean of a curve over its runs, at the steps that all of them have."""
    values = rows.pivot_table(index="step", columns="run", values="value").dropna()
    if values.empty:
        raise ValueError("the runs have no step in common: a band over seeds is of checkpoints that all of them saved")
    each, runs = values.to_numpy(float).T, values.shape[1]
    mean = each.mean(0)
    if runs < FEWEST_SEEDS:
        return _Band(values.index.to_numpy(), mean, each.min(0), each.max(0), each)
    half = float(stats.t.ppf((1 + LEVEL) / 2, runs - 1)) * each.std(0, ddof=1) / np.sqrt(runs)
    return _Band(values.index.to_numpy(), mean, mean - half, mean + half, each)


def over_seeds(table: pd.DataFrame, probe: str, name: str, ax: Axes | None = None) -> Axes:
    """Draw a quantity of several runs, whose heads are aligned: the mean with its band (see `_Band`), each run thin."""
    rows, ax = select(table, probe, name), new_axes(ax, height=2.8)
    set_step_axis(ax, rows["step"])
    bands = sorted(bands_of(rows), key=lambda one: -float(np.ptp(one[1].mean)))[:_LINES]
    named = [(curve_label(labels), one) for labels, one in bands]
    colours: Mapping[object, str] = ordered_colours(sorted(label for label, _ in named))
    for label, one in named:
        colour = colours[label] if label else BLACK
        ax.plot(one.steps, one.each.T, color=colour, linewidth=0.5, alpha=0.45, label="_seed")
        ax.plot(one.steps, one.mean, color=colour, linewidth=1.7, label=label or "_mean")
        ax.fill_between(one.steps, one.lo, one.hi, color=colour, alpha=0.2, linewidth=0)
    set_value_axis(ax, quantity_of(table, probe, name))
    return finish(ax)


def bands_of(rows: pd.DataFrame) -> Sequence[tuple[dict[str, Any], _Band]]:
    """Return the curves of a quantity over runs, by their labels, that have a step which all runs share."""
    runs = rows["run"].nunique()
    return [
        (labels, _band(line))
        for labels, line in scores.by_labels(rows, scores.axes_of(rows))
        if line["run"].nunique() == runs and line.groupby("step")["run"].nunique().max() == runs
    ]
