"""Plots of emergence: the plateau of the loss, the abrupt rise of the accuracy, the attention that moves with it."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stagewise.papers.emergence._half_way import ROLES, Kind, Rise, curves, moved_curves, rise_of
from stagewise.papers.linear_axis import set_linear_step_axis
from stagewise.plot.axes import (
    OKABE_ITO,
    check_one_run,
    curve,
    label_ends,
    marker,
    new_axes,
    set_step_axis,
)
from stagewise.plot.curves import quantity_of
from stagewise.table import with_role

DRAWN = 40
"""Curves of a panel, of more those that moved most; the others are in the table."""

NAMED = 12
"""Names beside a panel, of more curves that rose those that moved most."""


def emergence(table: pd.DataFrame) -> Figure:
    """Draw loss, accuracy with attention, and weights, one above the other on one step axis.

    It is linear where checkpoints are evenly spaced, as in the source, and logarithmic where they are not.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figures 4 and 17.
    """
    loss, weights = dict(curves(table, "loss")), dict(curves(table, "weights"))
    heights = [1.5] * bool(loss) + [2.9] + [1.7] * bool(weights)
    figure = Figure(figsize=(7.6, sum(heights) + 0.6), layout="constrained")
    panels = list(figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0])
    if loss:
        curve(panels[0], loss["loss"], "loss", "#000000")
        panels[0].set(ylabel=_axis(table, "loss"), ylim=(0, None))
    rise(table, panels[bool(loss)])
    if weights:
        _draw_curves(panels[-1], weights, {name for _, name, _ in moved_curves(table)})
        panels[-1].set(ylabel=_axis(table, "weights"))
    for ax in panels:
        _shade(ax, rise_of(table), int(table["step"].max()))
        _set_steps(ax, table)
        label_ends(ax)
    for ax in panels[:-1]:
        ax.set_xlabel("")
    return figure


def rise(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw accuracy, and attention along each relation by head, over training.

    The step axis is that of `emergence`. Where there are many curves, those that moved most are drawn. `NAMED` of the
    rising ones have names at their ends: call `label_ends` once the axis has its final width.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figures 4 and 17.
    """
    check_one_run(table)
    attention, accuracy = dict(curves(table, "attention")), dict(curves(table, "accuracy"))
    if not attention or not accuracy:
        raise ValueError("the table needs rows of Accuracy and of AttentionTo: measure with both probes")
    ax = new_axes(ax)
    _draw_curves(ax, attention, {name for _, name, _ in moved_curves(table)})
    curve(ax, accuracy["accuracy"], "accuracy", "#000000")
    ax.set(ylabel="attention, accuracy", ylim=(0, 1))
    _set_steps(ax, table)
    return ax


def _set_steps(ax: Axes, table: pd.DataFrame) -> None:
    steps = np.unique(table["step"])
    gaps = np.diff(steps)[:-1]  # a run's last checkpoint may come sooner
    if len(gaps) and gaps.max() > 2 * gaps.min():
        set_step_axis(ax, steps)
        return
    set_linear_step_axis(ax, int(steps[-1]))


def _axis(table: pd.DataFrame, kind: Kind) -> str:
    return quantity_of(table, *with_role(table, ROLES[kind])[0]).axis


def _draw_curves(ax: Axes, lines: dict[str, pd.DataFrame], named: set[str]) -> None:
    ranges = {name: float(np.ptp(rows["value"])) for name, rows in lines.items()}
    most = sorted(ranges, key=lambda name: -ranges[name])[:DRAWN]
    labelled = [name for name in most if name in named][:NAMED]
    for i, (name, rows) in enumerate(lines.items()):
        if name in most:
            curve(ax, rows, name if name in labelled else f"_{name}", OKABE_ITO[i % len(OKABE_ITO)], marker(i))


def _shade(ax: Axes, rose: Rise | None, last: int) -> None:
    """Shade the accuracy's rise, to the last step where it is not over then."""
    if rose is not None:
        ax.axvspan(rose.tenth.lo, min(rose.most.hi, last), color="#eceef4", linewidth=0, zorder=0)
        ax.axvspan(rose.half.lo, min(rose.half.hi, last), color="#c9cddb", linewidth=0, zorder=0.1)
