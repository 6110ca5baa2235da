"""The panels that the figures of the emergence of sparse attention are put together from."""

import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stagewise.papers.law_plots import collapse, set_log_times
from stagewise.papers.linear_axis import set_linear_step_axis
from stagewise.papers.power_law import NoLaw, PowerLaw
from stagewise.plot.axes import HEADS, curve, marker, ordered_colours

_BESIDE = 3
"""Panels beside each other whose text can be read on a page; of four two stand above two."""

_ORDERED = 4
"""Curves whose shades from dark to light can be told apart; of more each has a colour and a marker."""


def panels(n: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with n panels side by side, in two rows where one would be too wide."""
    rows = 1 if n <= _BESIDE else 2
    columns = math.ceil(n / rows)
    figure = Figure(figsize=(4.6 * columns, 3.8 * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat[:n])


def draw_curves(ax: Axes, curves: Sequence[tuple[str, pd.DataFrame]]) -> None:
    """Draw labelled curves, [(label, rows of a table)], over a linear step axis: a few from dark to light."""
    few = len(curves) <= _ORDERED
    shades = ordered_colours([label for label, _ in curves])
    for i, (label, rows) in enumerate(curves):
        curve(ax, rows, label, shades[label] if few else HEADS[i % len(HEADS)], "" if few else marker(i))
    finish(ax)
    set_linear_step_axis(ax, max(int(rows["step"].max()) for _, rows in curves))


def finish(ax: Axes, title: str = "", **properties: Any) -> None:
    """Set a panel's properties and title, show its legend where it has one, and take away the frame's upper half."""
    ax.set(**properties)
    ax.set_title(title, fontsize=9)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)


def draw_law(
    ax: Axes, runs: pd.DataFrame, law: PowerLaw | NoLaw, colour_by: str, unit: str = "optimiser steps"
) -> None:
    """Draw the collapse of the runs on their law, its sizes in the paper's letters, or say why there is none."""
    if isinstance(law, PowerLaw):
        in_letters = replace(law, terms=tuple(map(_letter, law.terms)))
        collapse(runs.rename(columns=_letter), in_letters, _letter(colour_by), unit, ax)
        return
    ax.set_axis_off()
    ax.text(0.5, 0.5, textwrap.fill(str(law), 38), ha="center", va="center", fontsize=9, transform=ax.transAxes)


def _letter(name: str) -> str:
    """Return a size as the paper writes it: N_pairs of the column n_pairs."""
    return re.sub("^n_", "N_", name)


def put_above(ax: Axes, text: str) -> None:
    """Write a line above the title of a panel: what it is of."""
    ax.set_title("\n".join(filter(None, [text, ax.get_title()])), fontsize=9)


def log_log(ax: Axes, sizes: pd.Series) -> None:
    """Make both axes logarithmic, of sizes and of times, with a tick at every size and none between."""
    ax.set_xscale("log")
    set_log_times(ax.yaxis)
    ticks = sorted(sizes.unique())
    ax.set_xticks(ticks, [f"{size:g}" for size in ticks])
    ax.set_xticks([], minor=True)
