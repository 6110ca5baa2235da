"""The way of a whole run through the plane of its first two principal components."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from stagewise.findings import Stages
from stagewise.plot.axes import GREY, check_one_run, new_axes, step_label
from stagewise.table import select

_SCALE = "viridis_r"
"""From light for early checkpoints to dark for late ones."""

_NAMED = 8
"""Checkpoints whose step is written beside them, at most."""


def trajectory(table: pd.DataFrame, stages: Stages | None = None, ax: Axes | None = None) -> Axes:
    """Draw where the checkpoints lie on the first two principal components, in the order of the steps, light to dark.

    Steps are written where the way is about as long again since the last one written; with stages, where these begin.
    Both axes have one scale, so that lengths are distances.

    Args:
        table: from `trajectory`, of one run. Two checkpoints have one component: they lie on a line.
        stages: of the run, whose boundaries are named in place of other steps.
    """
    rows = select(table, "Trajectory", "position")
    check_one_run(rows)
    wide = rows.pivot_table(index="step", columns="component", values="value")
    steps, points = wide.index.to_numpy(), wide.reindex(columns=["PC1", "PC2"], fill_value=0.0).to_numpy(float)
    explained = select(table, "Trajectory", "explained").set_index("component")["value"]
    ax = new_axes(ax, 7.0, 3.4)
    ax.plot(points[:, 0], points[:, 1], color=GREY, linewidth=1.0, zorder=1)
    ax.scatter(points[:, 0], points[:, 1], c=np.arange(len(steps)), vmin=-len(steps) / 6, cmap=_SCALE, s=16, zorder=2)
    for number in _named(points) if stages is None else _boundaries(steps, stages):
        ax.annotate(
            step_label(int(steps[number])), points[number], xytext=(3, 7), textcoords="offset points", fontsize=8.5
        )
    for name, which in (("PC1", "x"), ("PC2", "y")):
        ax.set(**{f"{which}label": f"{name}, {explained.get(name, 0.0):.0%} of the variance"})
    ax.set_aspect("equal", adjustable="datalim")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _named(points: np.ndarray) -> list[int]:
    """Return the first and the last checkpoint, and those between at about equal distances along the way."""
    way = np.concatenate([[0.0], np.linalg.norm(np.diff(points, axis=0), axis=1).cumsum()])
    return sorted({int(np.abs(way - part).argmin()) for part in np.linspace(0, way[-1], _NAMED)})


def _boundaries(steps: np.ndarray, stages: Stages) -> list[int]:
    """Return the first and the last checkpoint, and the nearest to each stage's beginning."""
    starts = [float(start) for start in stages.table["start"]]
    return sorted({0, len(steps) - 1, *(int(np.abs(steps - start).argmin()) for start in starts)})
