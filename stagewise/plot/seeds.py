"""Curves of several runs: seeds with their band, and delays by changes."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from scipy import stats

from stagewise.findings import scores
from stagewise.plot.axes import new_axes, ordered_colours, set_step_axis
from stagewise.plot.curves import BLACK, finish, quantity_of, set_value_axis
from stagewise.statistics import FEWEST_SEEDS, LEVEL
from stagewise.table import select
from stagewise.words import branch_in_words, curve_label, end_in_words
from stagewise.words import transition as in_words

_LINES = 8
"""Curves of one figure, of more those that moved most."""

_SCALE = "PuOr_r"
"""Two colours whose lightness falls to both sides: earlier, later."""

_DARK = 0.6
"""Part of the largest delay from which on a cell is dark."""

_WIDE = 16
"""Letters of a column's name in a line."""


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


def interventions(rows: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the delays that `intervene` and `branch` return, optimiser steps: a row a transition, a column a change.

    Columns are in the order of steps; of each step heads come first, then changes of the recipe and kicks. A cell holds
    the delay with its 95 % interval; "> n" where the transition came no more within the run.
    """
    if rows.empty:
        raise ValueError(
            "there are no interventions to draw: `stagewise cause intervene FOLDER --hold L0H0 --from STEP`"
        )
    by = [name for name in ("step", "kick", "layer", "head") if name == "kick" or name in rows]
    kicks = [str(row.get("kind")) == "kick" for row in rows.to_dict("records")]
    ordered = rows.assign(kick=kicks).sort_values(by, kind="stable")
    labels = [(textwrap.fill(branch_in_words(row), _WIDE), row["step"]) for row in ordered.to_dict("records")]
    events = [in_words({**row, "kind": ""}) for row in ordered.to_dict("records")]
    cells = ordered.assign(column=[f"{label}\nfrom {step}" for label, step in labels], transition=events)
    columns, names = list(dict.fromkeys(cells["column"])), list(dict.fromkeys(cells["transition"]))
    value, lo, hi = (
        cells.pivot(index="transition", columns="column", values=end)
        .reindex(index=names, columns=columns)
        .to_numpy(float)
        for end in ("value", "lo", "hi")
    )
    colour_value = np.where(np.isinf(value), np.maximum(lo, 0), value)
    largest = max(float(np.nanmax(np.abs(colour_value))), 1.0)
    ax = new_axes(ax, 2.6 + 1.1 * len(columns), 1.0 + 0.45 * len(names))
    norm = TwoSlopeNorm(0, -largest, largest)
    ax.pcolormesh(colour_value, cmap=_SCALE, norm=norm, edgecolors="white", linewidth=1)
    for i, j in np.ndindex(*value.shape):
        colour = "white" if abs(colour_value[i, j]) > _DARK * largest else "black"
        words = _words(float(value[i, j]), float(lo[i, j]), float(hi[i, j]))
        ax.text(j + 0.5, i + 0.5, words, ha="center", va="center", fontsize=7.5, color=colour)
    ax.set_xticks(np.arange(len(columns)) + 0.5, columns, fontsize=8)
    ax.set_yticks(np.arange(len(names)) + 0.5, names, fontsize=8)
    ax.invert_yaxis()
    ax.tick_params(length=0)
    return ax


def _words(value: float, lo: float, hi: float) -> str:
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return f"> {end_in_words(lo)}"
    return f"{value:+z.0f}\n[{end_in_words(lo)}, {end_in_words(hi)}]"
