"""Profiles over positions or offsets at a few checkpoints, first to last: loss by position, attention by distance."""

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from stagewise.plot._colours import ordered_colours
from stagewise.plot._quantities import quantity_of, set_value_axis
from stagewise.plot._step_axis import check_one_run, curve, evenly, label_ends, new_axes, panels
from stagewise.table import Head, head_label, select
from stagewise.words._times import at

_CHECKPOINTS = 5
"""Lines of a figure."""

_COLUMNS = 3


def loss_by_position(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the loss at every position, nats, a line a checkpoint.

    Source: Olsson et al. (2022), arXiv:2209.11895, the loss by token index.
    """
    rows = select(table, "LossByPosition", "cross_entropy")
    ax = profile(new_axes(ax, height=2.8), rows, "position")
    set_value_axis(ax, quantity_of(table, "LossByPosition", "cross_entropy"))
    label_ends(ax)
    return ax


def offset_profiles(table: pd.DataFrame, heads: list[Head]) -> Figure:
    """Draw how much each head attends to each offset = query - key, a line a checkpoint, a panel a head."""
    rows, label = select(table, "OffsetProfile", "mass"), quantity_of(table, "OffsetProfile", "mass").axis
    across = min(_COLUMNS, len(heads))
    height = 2.1 * math.ceil(len(heads) / across)
    figure, grid = panels(len(heads), height, 2.6 * across + 0.9, across, sharey=True)
    top = min(1.05 * rows["value"].max(), 1)
    for i, ((layer, head), ax) in enumerate(zip(heads, grid, strict=True)):
        profile(ax, rows[(rows["layer"] == layer) & (rows["head"] == head)], "offset")
        ax.set_title(head_label(layer, head), loc="left", fontsize=9)
        ax.set(ylim=(0, top), ylabel=label if i % across == 0 else "")
        if i == min(across, len(heads)) - 1:
            label_ends(ax)
    return figure


def profile(ax: Axes, rows: pd.DataFrame, axis: str) -> Axes:
    """Draw values along an axis of the table, a line for each of five checkpoints, the first and the last with them."""
    check_one_run(rows)
    shown = evenly(sorted(int(step) for step in rows["step"].unique()), _CHECKPOINTS)
    for step, colour in zip(shown, ordered_colours(shown).values(), strict=True):
        line = rows[rows["step"] == step].sort_values(axis)
        curve(ax, line.assign(step=line[axis]), at(step), colour)
    ax.set_xlabel(axis)
    if (rows[axis] % 1 == 0).all():
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.spines[["top", "right"]].set_visible(False)
    return ax
