"""A family of models: when each size came to what, in tokens and in loss, and its loss over tokens."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from stagewise.findings._frames import rows_of
from stagewise.plot._colours import marker, ordered_colours
from stagewise.plot._curves import finish
from stagewise.plot._quantities import quantity_of, set_value_axis
from stagewise.plot._step_axis import curve, new_axes, set_step_axis
from stagewise.table import Role

_ROW = 0.32
"""Inches of a row of events."""

_APART = 0.6
"""Part of a row over which its sizes are spread."""


def milestones(events: pd.DataFrame, over: str, last: int | float, ax: Axes | None = None) -> Axes:
    """Draw a row an event, a mark a size: its mean over seeds, and each seed small."""
    order, sizes = list(dict.fromkeys(events["event"])), list(dict.fromkeys(events["size"]))
    ax = new_axes(ax, width=7.6, height=1.0 + _ROW * len(order))
    if over == "time":
        set_step_axis(ax, np.concatenate([[0], events["time"], [last]]))
    colours, gap = ordered_colours(sizes), _APART / max(len(sizes), 1)
    for place, size in enumerate(sizes):
        rows = events[events["size"] == size]
        heights = np.array([order.index(name) for name in rows["event"]]) + gap * (place - (len(sizes) - 1) / 2)
        colour = colours[size]
        ax.scatter(rows[over], heights, s=7, color=colour, alpha=0.5, linewidth=0, label="_seeds")
        means = rows.assign(height=heights).groupby("event", sort=False)[[over, "height"]].mean()
        ax.scatter(means[over], means["height"], s=26, color=colour, marker=marker(place), label=str(size), zorder=3)
    ax.set_yticks(range(len(order)), order)
    ax.set_ylim(len(order) - 0.5, -0.5)
    ax.grid(axis="x", color="#e4e5ec", linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    if over == "loss":
        ax.set_xlabel("loss, nats")
        ax.invert_xaxis()
    ax.legend(frameon=False, fontsize=8.5, loc="upper left", bbox_to_anchor=(1.01, 1))
    return ax


def losses(table: pd.DataFrame, sizes: Mapping[str, str], ax: Axes | None = None) -> Axes:
    """Draw the loss of every run, one colour a size; the first run of each names it."""
    rows, ax = rows_of(table, Role.LOSS), new_axes(ax, height=2.8)
    set_step_axis(ax, rows["step"])
    colours, named = ordered_colours(list(dict.fromkeys(sizes.values()))), set[str]()
    for run, line in rows.groupby("run", sort=False):
        size = sizes[str(run)]
        curve(
            ax, line.drop(columns=["lo", "hi"], errors="ignore"), f"_{size}" if size in named else size, colours[size]
        )
        named.add(size)
    set_value_axis(ax, quantity_of(table, str(rows["probe"].iloc[0]), str(rows["quantity"].iloc[0])))
    return finish(ax)
