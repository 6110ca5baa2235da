"""Common parts of figures over training: colours, a step axis that can show step 0, shaded stages, ribbons, labels."""

import math
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import scipy
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from stagewise.findings import Stages
from stagewise.table import Head, heads_in
from stagewise.token_axis import Time
from stagewise.words import COUNTED, axis_in_force, headed, written

OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
"""Okabe and Ito (2008), Color Universal Design; no yellow, too light for lines, and no black, for mixing."""

HEADS = (*OKABE_ITO, "#882255", "#999933", "#332288")
"""For more than six heads three colours of Paul Tol's "muted" scheme besides: wine, olive, indigo."""

_MARKERS = "os^DvPX<>*"

GREY = "#b9bcc6"
"""The colour of lines for comparison."""

_SHADES = ("#eceef4", "#f9f9fb")
"""Odd and even stages."""

SCALE = "BuPu"
"""From almost white for nothing to dark: its lightness falls all the way."""

VECTOR_CELLS = 3000
"""Matrices of more cells are embedded as an image."""

ALONE = "_all"
"""Label, which matplotlib hides, of the only curve of its axes: what the axis says names it."""

LABEL_SIZE = 9
"""Points."""

LABEL_LEFT = 1.035
"""Where labels of lines begin, in widths of the axes."""

_TICK_ROOM = 22
"""Points between the labels of two ticks."""

_LINEAR_PART = 0.35
"""Width of the axis from step 0 to where it becomes logarithmic, in decades."""


def head_colours(table: pd.DataFrame) -> dict[Head, str]:
    """Give every head of the table its colour; from the tenth head on they repeat."""
    return {head: HEADS[i % len(HEADS)] for i, head in enumerate(heads_in(table))}


def ordered_colours(names: Sequence[object]) -> dict[object, str]:
    """Give ordered things colours from dark to light, the same to the n-th of two families of the same size."""
    positions = np.linspace(0.12, 0.76, max(len(names), 2))
    scale = matplotlib.colormaps["magma"]
    return {name: to_hex(scale(position)) for name, position in zip(names, positions, strict=False)}


def marker(i: int) -> str:
    """Return the marker of the i-th line of a figure: it distinguishes lines in grey."""
    return _MARKERS[i % len(_MARKERS)]


def ink(colour: str) -> tuple[float, float, float]:
    """Darken a colour until text in it is readable on white."""
    red, green, blue = to_rgb(colour)
    luminance = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
    # 0.18 is the luminance that has a contrast of 4.5 to 1 on white.
    factor = min(1.0, (0.18 / luminance) ** (1 / 2.2)) if luminance > 0 else 1.0
    return red * factor, green * factor, blue * factor


def new_axes(ax: Axes | None, width: float = 7.6, height: float = 3.4) -> Axes:
    """Return the given axes, or those of a new figure (inches), which no global state knows of."""
    if ax is not None:
        return ax
    return Figure(figsize=(width, height), layout="constrained").subplots()


def panels(number: int, height: float, across: int = 1, **shared: Any) -> tuple[Figure, list[Axes]]:
    """Return a new figure of a height in inches and so many axes in it, row by row, `across` in each."""
    figure = Figure(figsize=(7.6, height), layout="constrained")
    axes = list(figure.subplots(math.ceil(number / across), across, squeeze=False, **shared).flat)
    for ax in axes[number:]:
        ax.remove()
    return figure, axes[:number]


def evenly(items: Sequence[Any], most: int) -> list[Any]:
    """Return so many of some items at most, the first and the last among them, at equal distances."""
    return [items[place] for place in np.linspace(0, len(items) - 1, min(most, len(items))).round().astype(int)]


def check_one_run(rows: pd.DataFrame) -> None:
    """Raise ValueError for rows of several runs, whose curves would be joined into one."""
    if "run" in rows and rows["run"].nunique() > 1:
        raise ValueError(
            f"a figure shows one run, the table has {rows['run'].nunique()}: select one by its `run` column"
        )


def step_axis_label(*, linear: bool = True) -> str:
    """Return the label of a step axis, which may be linear where it begins."""
    return headed("step (log scale; linear near 0)" if linear else "step (log scale)")


def _step_ticks(start: int, last: int) -> list[int | float]:
    """Return 0, then 1 and 3 times the powers of ten, of steps or of tokens, and the last step."""
    axis = axis_in_force()
    ends: list[int | float] = [start, last] if axis is None else [axis.tokens_at(start), axis.tokens_at(last)]
    decades = range(math.floor(math.log10(ends[0])), int(math.log10(ends[1])) + 1)
    counted = [factor * 10**decade for decade in decades for factor in (1, 3)]
    ticks: list[int | float] = [*counted] if axis is None else [axis.step_at(tick) for tick in counted]
    return [0, *(tick for tick in ticks if start <= tick < last / 1.6), last]


def step_label(step: Time) -> str:
    """Write a step shortly, or the tokens seen by then."""
    if axis_in_force() is None and step >= 1000 and step % 1000 == 0:
        return f"{step / 1000:.0f}k"
    return written(step)


def set_step_axis(ax: Axes, steps: Sequence[int] | pd.Series | np.ndarray) -> None:
    """Make the x axis one of optimiser steps, or of tokens: logarithmic, from the first of several to the last."""
    first, last = int(np.min(steps)), max(int(np.max(steps)), 1)
    # It is linear up to the power of ten below the root of the last step.
    first, linear = first if first < last else 0, int(10 ** math.floor(math.log10(last) / 2))
    if axis_in_force() is COUNTED:  # of tokens there are none between 0 and those of the first checkpoint
        linear = max(linear, min((int(step) for step in steps if step > 0), default=1))
    ax.set_xscale("symlog", linthresh=linear, linscale=_LINEAR_PART)
    ax.set_xlim(first, last)
    ticks = _with_room(ax, [first, *(tick for tick in _step_ticks(linear, last) if tick > first)])
    ax.set_xticks(ticks, [step_label(tick) for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.set_xlabel(step_axis_label(linear=first < linear))
    ax.spines[["top", "right"]].set_visible(False)


def _with_room(ax: Axes, ticks: Sequence[int | float]) -> list[int | float]:
    """Leave out ticks whose labels would touch; the first and the last stay."""
    width, _ = size_in_points(ax)
    *others, last = ticks
    spaced = [others[0]]
    for tick in others[1:]:
        left, here, right = (width * axes_position(ax, x, 0.0)[0] for x in (spaced[-1], tick, last))
        if min(here - left, right - here) > _TICK_ROOM:
            spaced.append(tick)
    return [*spaced, last]


def shade_stages(ax: Axes, stages: Stages | None, numbers_only: bool = False) -> None:
    """Shade the stages, hatch the interval of each boundary, name the stages above; of one stage, nothing."""
    if stages is None or len(stages.table) < 2:
        return
    names, boundaries = [], []
    for row in stages.table.to_dict("records"):
        number, start, end = int(row["stage"]), float(row["start"]), float(row["end"])
        ax.axvspan(start, end, color=_SHADES[(number + 1) % 2], linewidth=0, zorder=0)
        left, right = (axes_position(ax, x, 0.0)[0] for x in (start, end))
        wide = (right - left) * ax.get_window_extent().width > 65 * ax.figure.dpi / 72
        names.append(((left + right) / 2, f"stage {number}" if wide and not numbers_only else str(number)))
        if number > 1:
            lo, hi = float(row["start_lo"]), float(row["start_hi"])
            with matplotlib.rc_context({"hatch.linewidth": 0.5}):
                ax.axvspan(lo, hi, facecolor="#dfe1ea", edgecolor="#9a9db0", hatch="/////", linewidth=0, zorder=0.5)
            ax.axvline(start, color="#5c5f70", linewidth=0.9, zorder=0.6)
            boundaries.append((left, written(start)))
    _write_above(ax, names, [] if numbers_only else boundaries)


def _write_above(ax: Axes, names: Sequence[tuple[float, str]], boundaries: Sequence[tuple[float, str]]) -> None:
    """Write the stages' names above the axes, and the boundaries' steps where these touch nothing."""
    em = ax.figure.dpi / 72 / ax.get_window_extent().width
    taken: list[tuple[float, float]] = []
    labels = [(*name, LABEL_SIZE, "#444444") for name in names]
    for position, text, size, colour in labels + [(*step, 8.5, "#5c5f70") for step in boundaries]:
        half = 0.35 * (len(text) + 0.5) * size * em
        if all(abs(position - other) > half + width for other, width in taken):
            taken.append((position, half))
            ax.text(position, 1.02, text, transform=ax.transAxes, ha="center", fontsize=size, color=colour)


def curve(ax: Axes, rows: pd.DataFrame, label: str, colour: str, mark: str = "", theory: bool = False) -> None:
    """Draw one line of the table with its interval as a ribbon; of a theory's, dashed."""
    rows = rows.sort_values("step")
    steps, values = rows["step"].to_numpy(float), rows["value"].to_numpy(float)
    every = (0.02 + 0.013 * len(ax.get_lines()), 0.09)
    style = "--" if theory else "-"
    ax.plot(
        steps, values, style, color=colour, label=label, marker=mark or None, markevery=every, markersize=4.8,
        markeredgecolor="white", markeredgewidth=0.4, linewidth=1.4,
    )  # fmt: skip
    if {"lo", "hi"} <= set(rows.columns) and rows["lo"].notna().all():
        lo, hi = rows["lo"].to_numpy(float), rows["hi"].to_numpy(float)
        ax.fill_between(steps, lo, hi, color=colour, alpha=0.22, linewidth=0)


def label_ends(ax: Axes) -> None:
    """Write each line's label at its right end, moved apart where they would overlap. Call it last."""
    lines = [line for line in ax.get_lines() if not str(line.get_label()).startswith("_")]
    if not lines:
        return
    ax.set_ylim(ax.get_ylim())
    last = [[np.asarray(data, dtype=float)[-1] for data in line.get_data()] for line in lines]
    ends = [float(np.clip(axes_position(ax, x, y)[1], 0, 1)) for x, y in last]
    _, height = size_in_points(ax)
    heights = spread(ends, 1.2 * LABEL_SIZE / height)
    for line, label_height in zip(lines, heights, strict=True):
        ax.text(
            LABEL_LEFT, label_height, str(line.get_label()), transform=ax.transAxes, va="center", fontsize=LABEL_SIZE,
            color=ink(str(line.get_color())),
        )  # fmt: skip
    # Lines, not the arrows of annotations, whose ends matplotlib searches for at each of several layouts.
    leaders = LineCollection(
        [[(1, end), (LABEL_LEFT - 0.005, label_height)] for end, label_height in zip(ends, heights, strict=True)],
        colors=[str(line.get_color()) for line in lines], linewidths=0.7, transform=ax.transAxes, clip_on=False,
    )  # fmt: skip
    leaders.set_in_layout(False)
    ax.add_artist(leaders)


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Move numbers in [0, 1] apart by at least `gap`, in their order, as little as possible in squares."""
    order = np.argsort(places, kind="stable")
    steps = min(gap, 1 / max(len(places) - 1, 1)) * np.arange(len(places))
    top = max(1 - steps[-1], 0)
    moved = scipy.optimize.isotonic_regression(np.asarray(places, dtype=float)[order] - steps).x.clip(0, top) + steps
    positions = np.empty(len(places))
    positions[order] = moved
    return [float(position) for position in positions]


def size_in_points(ax: Axes) -> tuple[float, float]:
    """Return the width and the height of axes in points, of which an inch has 72."""
    extent = ax.get_window_extent()
    return extent.width / ax.figure.dpi * 72, extent.height / ax.figure.dpi * 72


def axes_position(ax: Axes, x: int | float, y: int | float) -> tuple[float, float]:
    """Return where a point lies, in widths and heights of the axes."""
    across, up = (ax.transData + ax.transAxes.inverted()).transform((x, y))
    return float(across), float(up)


def cell_edges(steps: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return the edges of cells around checkpoints, halfway between neighbours in log(1 + step)."""
    logs = np.log1p(np.asarray(steps, dtype=float))
    edges: np.ndarray = np.expm1(np.concatenate([logs[:1], (logs[1:] + logs[:-1]) / 2, logs[-1:]]))
    return edges


def cells(ax: Axes, wide: pd.DataFrame, values: np.ndarray | None = None, **colours: Any) -> QuadMesh:
    """Draw a frame of rows over steps as cells, an image where they are many; `values` in place of the frame's own."""
    return ax.pcolormesh(
        cell_edges(wide.columns.to_numpy()), np.arange(len(wide) + 1) - 0.5,
        wide.to_numpy(float) if values is None else values, rasterized=wide.size > VECTOR_CELLS, edgecolor="face",
        linewidth=0.2, **colours,
    )  # fmt: skip


def over_cells(ax: Axes, steps: np.ndarray, stages: Stages | None) -> None:
    """Give cells over training their step axis, and draw the boundaries of stages over them."""
    set_step_axis(ax, steps)
    shade_stages(ax, stages, numbers_only=True)
    for line in ax.get_lines():
        line.set(zorder=3, color="#222222", linestyle=(0, (3, 2)))
