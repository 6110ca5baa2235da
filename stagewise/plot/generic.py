"""Any quantity of any probe over training: lines for labels, or a map or profiles where an axis is long."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from stagewise.findings import Stages
from stagewise.plot import axes as step_axis
from stagewise.plot.axes import SCALE, cells, over_cells
from stagewise.plot.curves import BLACK, axes_of, escaped, labels_in_words, prepared, quantity_of, set_value_axis
from stagewise.table import Quantity, heads_in, maps_in, select
from stagewise.words import at

_CHECKPOINTS = 5
"""Lines of a figure."""

COLOURED = 8
"""Lines of a figure that are coloured and labelled."""

GREYS = 60
"""Further lines that are drawn, grey; the others are in the table."""

PANELS = 6
"""Maps or profiles of a figure."""

_LONG = 12
"""An axis of numbers that has more of them is drawn as an axis, not as lines."""

_LABEL = 40
"""Characters of a line's label."""

_TICKS = 6

_Curve = tuple[dict[str, object], pd.DataFrame]
"""Its labels on the axes, and its rows."""


def _profile(ax: Axes, rows: pd.DataFrame, axis: str) -> Axes:
    """Draw values along an axis of the table, a line for each of five checkpoints, the first and the last with them."""
    step_axis.check_one_run(rows)
    shown = step_axis.evenly(sorted(int(step) for step in rows["step"].unique()), _CHECKPOINTS)
    for step, colour in zip(shown, step_axis.ordered_colours(shown).values(), strict=True):
        line = rows[rows["step"] == step].sort_values(axis)
        step_axis.curve(ax, line.assign(step=line[axis]), at(step), colour)
    ax.set_xlabel(axis)
    if (rows[axis] % 1 == 0).all():
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def quantity(table: pd.DataFrame, probe: str, name: str, stages: Stages | None = None) -> Figure:
    """Draw a quantity over training as its probe declares it: its label, unit and range make the axis.

    Where there are many lines, those that moved most are coloured, the others grey. An axis of many numbers, such as
    a position, is drawn as a map over steps, or where the table has one or two checkpoints, as profiles.

    Args:
        table: from `measure`.
        probe: its name.
        name: of the quantity.

    Raises:
        ValueError: the table has no such rows, none with a finite value, or those of several runs.
    """
    rows = finite_rows(table, probe, name)
    step_axis.check_one_run(rows)
    if "map" in rows:
        return _images(rows, quantity_of(table, probe, name))
    if rows.empty:
        raise ValueError(f"the table has no finite value of {probe}, {name}")
    what, axis = quantity_of(table, probe, name), long_axis(rows)
    draw = {"lines": _lines, "maps": _maps, "profiles": _profiles}[kind_of(rows)]
    return draw(rows, what, axis, stages)


def finite_rows(table: pd.DataFrame, probe: str, name: str) -> pd.DataFrame:
    """Return the rows of a quantity that have a finite value, or a map."""
    rows = select(table, probe, name)
    if "map" in rows:
        return rows
    return rows[np.isfinite(rows["value"])] if "value" in rows else rows.iloc[:0]


def kind_of(rows: pd.DataFrame) -> Literal["lines", "maps", "profiles", "images"]:
    """Return how the rows of a quantity are drawn: maps over steps, images of queries and keys."""
    if "map" in rows:
        return "images"
    if not long_axis(rows):
        return "lines"
    return "maps" if rows["step"].nunique() > 2 else "profiles"


def long_axis(rows: pd.DataFrame) -> str:
    """Return the axis of numbers with the most of them, if there are more than fit as lines; else nothing."""
    sizes = {
        name: rows[name].nunique()
        for name in axes_of(rows)
        if name not in ("layer", "head") and pd.api.types.is_numeric_dtype(rows[name])
    }
    longest = max(sizes, key=lambda name: sizes[name], default="")
    return longest if sizes.get(longest, 0) > _LONG else ""


def lines_in(rows: pd.DataFrame, axis: str = "") -> list[_Curve]:
    """Return the rows of each combination of labels on all axes but one, those whose values moved most first."""
    others = [name for name in axes_of(rows) if name != axis]
    if not others:
        return [({}, rows)]
    values = rows.groupby([*others, *filter(None, [axis])], sort=False, dropna=False)["value"]
    moved = (values.max() - values.min()).groupby(level=others, sort=False, dropna=False).max()
    groups = dict(list(rows.groupby(others, sort=False, dropna=False)))
    groups_moved = zip(moved.index.to_frame(index=False).to_dict("records"), groups.values(), moved, strict=True)
    ordered = sorted(groups_moved, key=lambda group: -group[2])
    return [({str(key): label for key, label in labels.items()}, line) for labels, line, _ in ordered]


def _lines(rows: pd.DataFrame, what: Quantity, axis: str, stages: Stages | None) -> Figure:
    figure, (ax,) = step_axis.panels(1, 2.8)
    prepared(ax, rows, stages)
    lines = lines_in(rows, axis)
    for _, line in lines[COLOURED : COLOURED + GREYS]:
        ax.plot(line["step"], line["value"], color=step_axis.GREY, linewidth=0.8, label="_other", zorder=1)
    colours = _colours(lines[:COLOURED], rows)
    for i, ((labels, line), colour) in enumerate(zip(lines[:COLOURED], colours, strict=True)):
        step_axis.curve(ax, line, _label(labels_in_words(labels)), colour, step_axis.marker(i))
    set_value_axis(ax, what)
    step_axis.label_ends(ax)
    return figure


def _colours(lines: Sequence[_Curve], rows: pd.DataFrame) -> list[str]:
    """Return a head's own colour where lines are heads, else one after the other."""
    if len(lines) == 1 and not lines[0][0]:
        return [BLACK]
    if set(axes_of(rows)) == {"layer", "head"}:
        colours = step_axis.head_colours(rows)
        return [colours[heads_in(line)[0]] for _, line in lines]
    return [step_axis.HEADS[i % len(step_axis.HEADS)] for i in range(len(lines))]


def _label(text: str) -> str:
    # matplotlib takes a label that begins with an underscore for a hidden one.
    short = text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…"
    return escaped(f" {short}" if short.startswith("_") else short or step_axis.ALONE)


def _maps(rows: pd.DataFrame, what: Quantity, axis: str, stages: Stages | None) -> Figure:
    lines = lines_in(rows, axis)[:PANELS]
    figure, axes = step_axis.panels(len(lines), 1.95 * len(lines) + 0.35)
    least, most = what.range[0], float(rows["value"].max())
    limits = (float(rows["value"].min() if least is None else least), most)
    for (labels, line), ax in zip(lines, axes, strict=True):
        wide = line.pivot_table(index=axis, columns="step", values="value")
        mesh = cells(ax, wide, cmap=SCALE, vmin=limits[0], vmax=limits[1])
        every = math.ceil(len(wide) / _TICKS)
        ax.set_yticks(range(0, len(wide), every), [f"{label:g}" for label in wide.index[::every]])
        ax.set_ylim(len(wide) - 0.5, -0.5)
        over_cells(ax, np.sort(line["step"].unique()), stages)
        ax.set_ylabel(axis)
        ax.set_title(escaped(labels_in_words(labels)), loc="left", fontsize=9, pad=6 if stages is None else 16)
        ax.set_xlabel(ax.get_xlabel() if ax is axes[-1] else "")
    figure.colorbar(mesh, ax=axes, pad=0.02, label=escaped(what.axis), aspect=14 * len(lines))
    return figure


def _images(rows: pd.DataFrame, what: Quantity) -> Figure:
    """Draw the maps that moved most from the first checkpoint to the last, at the last."""
    first, last = (rows[rows["step"] == step] for step in (rows["step"].min(), rows["step"].max()))
    images, axes = maps_in(last), axes_of(rows)
    moved = np.abs(images - maps_in(first)).mean((1, 2)) if len(first) == len(last) else np.zeros(len(last))
    chosen = np.sort(np.argsort(-moved, kind="stable")[:PANELS])
    figure, grid = step_axis.panels(len(chosen), 2.6 * math.ceil(len(chosen) / 3), across=3)
    least, most = float(images[chosen].min()), float(images[chosen].max())
    for place, ax in zip(chosen, grid, strict=True):
        image = ax.imshow(images[place], cmap=SCALE, interpolation="none", vmin=least, vmax=most)
        ax.set_title(escaped(labels_in_words({name: last[name].iloc[place] for name in axes})), loc="left", fontsize=9)
        ax.set(xlabel="key position", ylabel="query position")
    figure.colorbar(image, ax=grid, pad=0.02, label=escaped(what.axis))
    return figure


def _profiles(rows: pd.DataFrame, what: Quantity, axis: str, stages: Stages | None) -> Figure:
    lines = lines_in(rows, axis)[:PANELS]
    figure, axes = step_axis.panels(len(lines), 2.2 * len(lines) + 0.3)
    for (labels, line), ax in zip(lines, axes, strict=True):
        _profile(ax, line, axis)
        ax.set_title(escaped(labels_in_words(labels)), loc="left", fontsize=9)
        set_value_axis(ax, what)
        step_axis.label_ends(ax)
    return figure
