"""The river of heads: how they flow between kinds of attention over training."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from stagewise.findings.lineage import Lineage
from stagewise.findings.stages import Stages
from stagewise.plot._colours import HEADS, head_colours, ink
from stagewise.plot._step_axis import (
    LABEL_LEFT,
    LABEL_SIZE,
    new_axes,
    set_step_axis,
    shade_stages,
    size_in_points,
    spread,
)
from stagewise.table import head_label

_GAP = 0.9
"""Between the beds of two kinds, in heads."""

_TALLEST = 7.0
"""Inches."""

_DRAWN = 40
"""Heads that are drawn as lines of their own colour and named; more are thin and grey."""


def river(lineage: Lineage, stages: Stages | None = None, ax: Axes | None = None) -> Axes:
    """Draw every head as a line over training that runs in the bed of its kind; a bed is as wide as it has heads."""
    labels = lineage.members.pivot(index=["layer", "head"], columns="step", values="kind").sort_index()
    bottoms, heights, top = _beds_of(labels.to_numpy())
    ax = new_axes(ax, 7.6, float(np.clip(0.9 + 0.28 * top, 1.6, _TALLEST)))
    steps = labels.columns.to_numpy(float)
    set_step_axis(ax, steps)
    shade_stages(ax, stages)
    ax.set_ylim(top + 0.5, -0.5 - _GAP / 2)
    for i, (kind, bottom) in enumerate(bottoms.items()):
        count = (labels.to_numpy() == kind).sum(0)
        colour = HEADS[i % len(HEADS)]
        ax.fill_between(
            steps, bottom - 0.5, bottom - 0.5 + count, where=count > 0, step="mid", color=colour, alpha=0.18,
            linewidth=0,
        )  # fmt: skip
    _draw_heads(ax, steps, heights, labels, lineage)
    _name_beds(ax, bottoms, lineage.kinds)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    return ax


class _Beds(NamedTuple):
    """The beds of kinds: where each begins, where each head runs in them [head, step], and where the last one ends."""

    bottoms: dict[int, float]
    heights: np.ndarray
    top: float


def _beds_of(labels: np.ndarray) -> _Beds:
    """Return the beds of kinds in the order of their numbers; heads run in them in the order of the heads."""
    bottoms, heights, bottom, top = {}, np.empty(labels.shape), 0.0, 0.0
    for kind in np.unique(labels):
        of = labels == kind
        heights[of] = bottom + (of.cumsum(0) - 1)[of]
        bottoms[int(kind)], top = bottom, bottom + int(of.sum(0).max())
        bottom = top + _GAP
    return _Beds(bottoms, heights, top)


def _draw_heads(ax: Axes, steps: np.ndarray, heights: np.ndarray, labels: pd.DataFrame, lineage: Lineage) -> None:
    heads = [(int(layer), int(head)) for layer, head in labels.index]
    few = len(heads) <= _DRAWN
    colours = head_colours(lineage.members)
    lines = LineCollection(
        [np.column_stack([steps, line]) for line in heights],
        colors=[colours[head] if few else "#666666" for head in heads], linewidths=1.5 if few else 0.5,
    )  # fmt: skip
    ax.add_collection(lines)
    if few:
        for head, line in zip(heads, heights, strict=True):
            ax.text(
                -0.008, line[0], head_label(*head), transform=ax.get_yaxis_transform(), ha="right", va="center",
                fontsize=8, color=ink(colours[head]),
            )  # fmt: skip


def _name_beds(ax: Axes, bottoms: dict[int, float], kinds: pd.DataFrame) -> None:
    """Write each kind's number and name at the right end, moved apart where they would overlap."""
    (low, high), rows = sorted(ax.get_ylim()), kinds.to_dict("records")
    middles = [bottoms[row["kind"]] + (row["heads"] - 1) / 2 for row in rows]
    places = spread([(high - middle) / (high - low) for middle in middles], 1.2 * LABEL_SIZE / size_in_points(ax)[1])
    for i, (place, row) in enumerate(zip(places, rows, strict=True)):
        ax.text(
            LABEL_LEFT, place, f"{row['kind']}: {row['name']}", transform=ax.transAxes, va="center",
            fontsize=LABEL_SIZE, color=ink(HEADS[i % len(HEADS)]),
        )  # fmt: skip
