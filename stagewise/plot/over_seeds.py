"""Curves of several seeds: their mean with its band over seeds, and each seed thin behind it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import stats

from stagewise.findings.scores import axes_of
from stagewise.plot._curves import BLACK, finish
from stagewise.plot.colours import ordered_colours
from stagewise.plot.quantities import quantity_of, set_value_axis
from stagewise.plot.step_axis import new_axes, set_step_axis
from stagewise.statistics import LEVEL
from stagewise.statistics._constants import FEWEST_SEEDS
from stagewise.table import select
from stagewise.words.onsets import curve_label

_LINES = 8
"""Curves of one figure, of more those that moved most."""


class _Band(NamedTuple):
    """A curve over seeds: at each step that all have, the mean, its band, and the seeds' own values.

    The band is Student's 95 % interval of the mean; of fewer than four seeds it is their range.
    """

    steps: np.ndarray
    mean: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    each: np.ndarray

    @property
    def move(self) -> float:
        """How far the mean moves."""
        return float(np.ptp(self.mean))


def _band(rows: pd.DataFrame) -> _Band:
    """Return the mean of a curve over its runs, at the steps that all of them have.

    >>> rows = pd.DataFrame({"run": ["a", "a", "b"], "step": [0, 1, 1], "value": [9.0, 1.0, 3.0]})
    >>> _band(rows).steps, _band(rows).mean
    (array([1]), array([2.]))
    """
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
    bands = sorted(bands_of(rows), key=lambda one: -one[1].move)[:_LINES]
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
    axes, runs = axes_of(rows), rows["run"].nunique()
    alone: Iterable[tuple[Any, pd.DataFrame]] = [((), rows)]
    groups = rows.groupby(axes, sort=False, dropna=False) if axes else alone
    return [
        ({axis: label for axis, label in zip(axes, labels, strict=True) if not pd.isna(label)}, _band(curve))
        for labels, curve in groups
        if curve["run"].nunique() == runs and curve.groupby("step")["run"].nunique().max() == runs
    ]
