"""The river of heads: how they flow between kinds of attention over training."""

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
    bottoms = _bottoms(labels.to_numpy())
    heights = _heights(labels.to_numpy(), bottoms)
    top = max(bottoms[kind] + size for kind, size in _sizes(labels.to_numpy()).items())
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


def _sizes(labels: np.ndarray) -> dict[int, int]:
    """Return the largest number of heads of each kind, by kind."""
    return {int(kind): int((labels == kind).sum(0).max()) for kind in np.unique(labels)}


def _bottoms(labels: np.ndarray) -> dict[int, float]:
    """Return where the bed of each kind begins, kinds in the order of their numbers."""
    bottoms, bottom = {}, 0.0
    for kind, size in _sizes(labels).items():
        bottoms[kind] = bottom
        bottom += size + _GAP
    return bottoms


def _heights(labels: np.ndarray, bottoms: dict[int, float]) -> np.ndarray:
    """Return where each head runs: in the bed of its kind, in the order of the heads, [head, step]."""
    heights = np.empty(labels.shape)
    for kind, bottom in bottoms.items():
        of = labels == kind
        rank = of.cumsum(0) - 1
        heights[of] = bottom + rank[of]
    return heights


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
    low, high = sorted(ax.get_ylim())
    middles = [bottoms[row["kind"]] + (row["heads"] - 1) / 2 for row in kinds.to_dict("records")]
    places = [(high - middle) / (high - low) for middle in middles]
    _, height = size_in_points(ax)
    for i, (place, row) in enumerate(
        zip(spread(places, 1.2 * LABEL_SIZE / height), kinds.to_dict("records"), strict=True)
    ):
        ax.text(
            LABEL_LEFT, place, f"{row['kind']}: {row['name']}", transform=ax.transAxes, va="center",
            fontsize=LABEL_SIZE, color=ink(HEADS[i % len(HEADS)]),
        )  # fmt: skip
