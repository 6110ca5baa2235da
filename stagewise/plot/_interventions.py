"""Dependence of transitions: how much later each one came where a head was held, or training was changed."""

import math
import textwrap

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from stagewise.findings.delays import find_delays
from stagewise.plot._step_axis import new_axes, panels
from stagewise.words._delays import branch_in_words, end_in_words
from stagewise.words._delays import transition as in_words

_SCALE = "PuOr_r"
"""Two colours whose lightness falls to both sides: earlier, later."""

_DARK = 0.6
"""Part of the largest delay from which on a cell is dark."""

_WIDE = 16
"""Letters of a column's name in a line."""

_BESIDE = 0.06
"""Distance between the delays of two seeds."""


def interventions(rows: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the delays that `intervene` and `branch` return, optimiser steps: a row a transition, a column a change.

    Columns are in the order of steps; of each step heads come first, then changes of the recipe and kicks. A cell holds
    the delay with its 95 % interval; "> n" where the transition came no more within the run.
    """
    if rows.empty:
        raise ValueError("there are no interventions to draw: `stagewise intervene FOLDER --hold-out L0H0 --from STEP`")
    by = [name for name in ("step", "kick", "layer", "head") if name == "kick" or name in rows]
    kicks = [str(row.get("kind")) == "kick" for row in rows.to_dict("records")]
    ordered = rows.assign(kick=kicks).sort_values(by, kind="stable")
    labels = [(textwrap.fill(branch_in_words(row), _WIDE), row["step"]) for row in ordered.to_dict("records")]
    cells = ordered.assign(column=[f"{label}\nfrom {step}" for label, step in labels])
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
    ax.set_yticks(np.arange(len(names)) + 0.5, [in_words(name) for name in names], fontsize=8)
    ax.invert_yaxis()
    ax.tick_params(length=0)
    return ax


def delays(rows: pd.DataFrame) -> Figure:
    """Draw a panel a transition of `find_delays`: each seed's delay, the mean and its interval, arrows for never."""
    if rows.empty:
        raise ValueError("there are no delays to draw: `intervene` returns them")
    means, names = find_delays(rows), sorted(rows["without"].unique())
    transitions = list(dict.fromkeys(rows["transition"]))
    number = len(transitions)
    figure, axes = panels(number, 3.4, 4.0 * number, across=number)
    for transition, ax in zip(transitions, axes, strict=True):
        of = rows[rows["transition"] == transition]
        position = of["without"].map(names.index) + _BESIDE * (of["seed"] - of["seed"].mean())
        never = np.isinf(of["value"])
        ax.plot(position[~never], of["value"][~never], "o", color="#4477aa", alpha=0.6, markersize=4)
        ax.plot(position[never], of["lo"][never], "^", color="#cc6677", markersize=6)
        for mean in means[(means["transition"] == transition) & means["mean"].notna()].to_dict("records"):
            x, value = names.index(mean["without"]) + 0.25, mean["mean"]
            ends = [[value - mean["lo"]], [mean["hi"] - value]]
            ax.errorbar(x, value, ends, fmt="_", color="black", capsize=3)
        ax.axhline(0, color="#999999", linewidth=0.8)
        ax.set_xticks(range(len(names)), [textwrap.fill(name, 12) for name in names], fontsize=8)
        ax.set_title(in_words(transition), fontsize=9, loc="left")
        ax.set_ylabel("delay, optimiser steps")
    return figure


def _words(value: float, lo: float, hi: float) -> str:
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return f"> {end_in_words(lo)}"
    return f"{value:+z.0f}\n[{end_in_words(lo)}, {end_in_words(hi)}]"
