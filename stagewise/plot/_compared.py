"""Curves of two runs over one another: the first run's lines solid, the second's dashed, one colour a curve."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from stagewise.plot._curves import BLACK, finish
from stagewise.plot.colours import ordered_colours
from stagewise.plot.quantities import axes_of, quantity_of, set_value_axis
from stagewise.plot.step_axis import curve, new_axes, set_step_axis
from stagewise.table import select
from stagewise.words.onsets import curve_label

_LINES = 8
"""Curves of one figure, of more those that moved most in either run."""


def compared(table: pd.DataFrame, probe: str, name: str, ax: Axes | None = None) -> Axes:
    """Draw a quantity of two runs, each at its own checkpoints: the first run solid, the second one dashed.

    Args:
        table: of two runs; the heads in it are aligned, see `findings.roles.paired_roles`.
        probe: whose quantity it is.
        name: of the quantity.

    Raises:
        ValueError: the table has no such rows, or not of two runs.
    """
    rows = select(table, probe, name)
    first, *others = dict.fromkeys(rows["run"])
    if len(others) != 1:
        raise ValueError(f"curves are compared between two runs, {probe} {name} has {len(others) + 1}")
    ax = new_axes(ax, height=2.8)
    set_step_axis(ax, rows["step"])
    lines = _lines(rows)
    colours: Mapping[object, str] = ordered_colours(sorted(lines))
    for label, line in lines.items():
        colour = colours[label] if label else BLACK
        for run, of_run in line.groupby("run", sort=False):
            dashed = run != first
            # A curve that the first run lacks is named at the end of the second one's.
            named = not dashed or line["run"].nunique() == 1
            curve(ax, of_run, label or "_curve" if named else f"_{label}", colour, theory=dashed)
    set_value_axis(ax, quantity_of(table, probe, name))
    return finish(ax)


def _lines(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the curves that moved most, by their labels."""
    axes = axes_of(rows)
    groups: Any = rows.groupby(axes, sort=False, dropna=False) if axes else [((), rows)]
    lines = {
        curve_label({axis: label for axis, label in zip(axes, labels, strict=True) if not pd.isna(label)}): line
        for labels, line in groups
    }
    moved = {label: max(np.ptp(one["value"]) for _, one in line.groupby("run")) for label, line in lines.items()}
    return {label: lines[label] for label in sorted(lines, key=lambda label: -moved[label])[:_LINES]}
