"""Local learning coefficients over training: of the whole model with the drift of its chains, and of each head."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stagewise.findings.stages import Stages
from stagewise.plot._colours import GREY, head_colours, marker
from stagewise.plot._curves import BLACK, finish, prepared
from stagewise.plot._quantities import quantity_of, set_value_axis
from stagewise.plot._step_axis import curve, panels
from stagewise.plot.heads import moved_most
from stagewise.table import Quantity, head_label, select

_PROBE = "LearningCoefficient"

_HEADS = 12
"""Heads that are drawn: those whose coefficient moved most."""

_BELOW = 0.5
"""Part of the largest coefficient to which an axis goes below 0, where a coefficient is of no minimum."""


def learning_coefficients(table: pd.DataFrame, stages: Stages | None = None) -> Figure:
    """Draw local learning coefficients: the model's, its drift dashed; below it those of single heads, if any.

    Where some are positive the axis ends a little below 0: far from a minimum, as at the start of training, they are
    negative by far and have no such meaning. All are in the table.
    """
    whole, drift = select(table, _PROBE, "whole_model"), select(table, _PROBE, "drift")
    heads = table[(table["probe"] == _PROBE) & (table["quantity"] == "of_head")]
    number = 2 if len(heads) else 1
    figure, (first, *others) = panels(number, 2.6 * number)
    prepared(first, whole, stages)
    first.axhline(0, color=GREY, linewidth=0.6, zorder=1)
    curve(first, drift, "drift", GREY, theory=True)
    curve(first, whole, "whole model", BLACK, "o")
    _finish(first, whole, quantity_of(table, _PROBE, "whole_model"))
    for ax in others:
        prepared(ax, heads, stages)
        first.set_xlabel("")
        ax.axhline(0, color=GREY, linewidth=0.6, zorder=1)
        colours = head_colours(heads)
        for number, (layer, head) in enumerate(moved_most(heads, _HEADS)):
            rows = heads[(heads["layer"] == layer) & (heads["head"] == head)]
            curve(ax, rows, head_label(layer, head), colours[layer, head], marker(number))
        _finish(ax, heads, quantity_of(table, _PROBE, "of_head"))
    return figure


def _finish(ax: Axes, rows: pd.DataFrame, quantity: Quantity) -> None:
    set_value_axis(ax, quantity)
    ends = [rows[name].dropna() for name in ("value", "hi") if name in rows]
    if (top := max(float(end.max()) for end in ends if len(end))) > 0 and ax.get_ylim()[0] < -_BELOW * top:
        ax.set_ylim(-_BELOW * top, 1.1 * top)
    finish(ax)
