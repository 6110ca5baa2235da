"""Which head a transition needs: how much later each one came where a head was held in training."""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm

from stagewise.plot.step_axis import new_axes
from stagewise.table import head_label

SCALE = "PuOr_r"
"""Two colours whose lightness falls to both sides: earlier, later."""

DARK = 0.6
"""Part of the largest delay from which on a cell is dark."""


def interventions(rows: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the delays of interventions, optimiser steps: a row a transition, a column a head that was held.

    A cell holds the delay with its 95 % interval; "> n" where the transition came no more within the run.

    Args:
        rows: as `experiments.intervening.intervene` returns them.
        ax: where to draw.

    Raises:
        ValueError: there are none.
    """
    if rows.empty:
        raise ValueError("there are no interventions to draw: `stagewise intervene FOLDER --hold-out L0H0 --from STEP`")
    named = rows.assign(column=[_name(row) for row in rows.to_dict("records")])
    columns, names = list(dict.fromkeys(named["column"])), list(dict.fromkeys(named["transition"]))
    value, lo, hi = (
        named.pivot(index="transition", columns="column", values=end)
        .reindex(index=names, columns=columns)
        .to_numpy(float)
        for end in ("value", "lo", "hi")
    )
    shown = np.where(np.isinf(value), lo, value)
    largest = max(float(np.nanmax(np.abs(shown))), 1.0)
    ax = new_axes(ax, 2.6 + 1.1 * len(columns), 1.0 + 0.45 * len(names))
    norm = TwoSlopeNorm(0, -largest, largest)
    ax.pcolormesh(shown, cmap=SCALE, norm=norm, edgecolors="white", linewidth=1)
    for i, j in np.ndindex(*value.shape):
        colour = "white" if abs(shown[i, j]) > DARK * largest else "black"
        words = _words(float(value[i, j]), float(lo[i, j]), float(hi[i, j]))
        ax.text(j + 0.5, i + 0.5, words, ha="center", va="center", fontsize=7.5, color=colour)
    ax.set_xticks(np.arange(len(columns)) + 0.5, columns, fontsize=8)
    ax.set_yticks(np.arange(len(names)) + 0.5, names, fontsize=8)
    ax.invert_yaxis()
    ax.tick_params(length=0)
    return ax


def _name(row: dict[Any, Any]) -> str:
    head = head_label(int(str(row["layer"])), int(str(row["head"])))
    return f"{head} {row['kind']}\nfrom {row['step']}"


def _words(value: float, lo: float, hi: float) -> str:
    if math.isnan(value):
        return ""
    return f"> {lo:.0f}" if math.isinf(value) else f"{value:+.0f}\n[{lo:.0f}, {hi:.0f}]"
