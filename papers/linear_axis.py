"""A linear axis of steps, for figures of one plateau."""

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from stagewise.plot.axes import step_label
from stagewise.words import headed

_FEW_TICKS = 5
"""Steps between ticks of a linear axis, at most."""


def set_linear_step_axis(ax: Axes, last: int | float) -> None:
    """Make the x axis one of optimiser steps from 0 to the last, with few ticks: their labels do not touch."""
    ax.set(xlim=(0, max(last, 1)), xlabel=headed("step"))
    ax.xaxis.set_major_locator(MaxNLocator(_FEW_TICKS, integer=True))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda step, _: step_label(round(step))))
    ax.spines[["top", "right"]].set_visible(False)
