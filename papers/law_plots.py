"""Forecasts against what came: a power law's collapse, and the end of a plateau with its interval."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from stagewise.papers.forecast import Forecast, Level
from stagewise.papers.linear_axis import set_linear_step_axis
from stagewise.papers.power_law import PowerLaw
from stagewise.plot.axes import GREY, OKABE_ITO, ink, marker, new_axes, ordered_colours
from stagewise.plot.curves import BLACK


def collapse(
    runs: pd.DataFrame,
    law: PowerLaw,
    colour_by: str | None = None,
    unit: str = "optimiser steps",
    ax: Axes | None = None,
) -> Axes:
    """Draw measured against fitted times on logarithmic axes: intervals as bars, censored runs as open arrows.

    Args:
        runs: a row a run, with the law's columns and either `time` or `lo` and `hi`.
        law: fitted on them, or on others.
        colour_by: a column whose values get colours and markers; None takes the law's first column that varies.
        unit: of the times.

    Raises:
        ValueError: the runs have neither `time` nor `lo` and `hi`, or no column `colour_by`.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figures 1 to 4 (right).
    """
    ax = new_axes(ax, 4.2, 3.6)
    if not {"lo", "hi"} <= set(runs):
        if "time" not in runs:
            raise ValueError(f"the runs need a column time, or lo and hi; they have {', '.join(map(str, runs))}")
        runs = runs.assign(lo=runs["time"], hi=runs["time"])
    runs = runs.assign(fitted=law.predict(runs))
    groups = _groups(runs, law, colour_by)
    colours = ordered_colours(list(groups))
    for i, (label, group) in enumerate(groups.items()):
        _draw(ax, group, label, colours[label], marker(i))
    ends = np.array([runs["fitted"].min() / 1.3, runs["fitted"].max() * 1.3])
    ax.plot(ends, ends, color="#888888", linewidth=0.9, zorder=0)
    for axis in (ax.xaxis, ax.yaxis):
        set_log_times(axis)
    ax.set_xlabel(f"fitted, {unit}")
    ax.set_ylabel(f"measured, {unit}")
    ax.set_title(f"{law.formula()}   R² {law.r_squared:.3f}", fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    if any(groups):
        ax.legend(frameon=False, fontsize=8)
    return ax


def set_log_times(axis: Axis) -> None:
    """Make an axis of times logarithmic, with ticks at 1, 2, 5, 10, ... that are written out, 10,000 as 10k."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})  # type: ignore[attr-defined]
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:g}k" if value >= 10_000 else f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def _groups(runs: pd.DataFrame, law: PowerLaw, colour_by: str | None) -> dict[str, pd.DataFrame]:
    if colour_by is None:
        varying = [name for name in runs if str(name) in " ".join(law.terms).split() and runs[name].nunique() > 1]
        if not varying:
            return {"": runs}
        colour_by = str(varying[-1])
    if colour_by not in runs:
        raise ValueError(f"the runs have no column {colour_by!r}; they have {', '.join(map(str, runs))}")
    return {f"{colour_by} = {value:g}": group for value, group in runs.groupby(colour_by)}


def _draw(ax: Axes, group: pd.DataFrame, label: str, colour: str, mark: str) -> None:
    seen = group[np.isfinite(group["hi"])]
    # A first interval from 0 has no place on a logarithmic axis: its bar starts at the edge of what is drawn.
    low, high = seen["lo"].clip(lower=seen["hi"] / 10), seen["hi"]
    middle = np.sqrt(low * high)
    ax.errorbar(
        seen["fitted"], middle, [middle - low, high - middle], fmt=mark, color=colour, label=label or None,
        markersize=4.8, markeredgecolor="white", markeredgewidth=0.4, elinewidth=0.9,
    )  # fmt: skip
    censored = group[~np.isfinite(group["hi"])]
    if len(censored):
        ax.errorbar(
            censored["fitted"], censored["lo"], 0.25 * censored["lo"], lolims=True, fmt=mark, color=ink(colour),
            markerfacecolor="none", markersize=4.8, elinewidth=0.9,
        )  # fmt: skip


def early_warning(readings: pd.DataFrame, forecast: Forecast, level: Level, ax: Axes | None = None) -> Axes:
    """Draw a curve up to where the forecast was made in black, the rest in grey, and the forecast on a linear axis.

    The line is the forecast, the band its 95 % interval, cut off at the last step shown; the horizontal band is the
    level at which the plateau ends.

    Args:
        readings: rows of one curve, one a step: `step`, `value`; those after the forecast too, where there are any.
        forecast: from `predict_onset`.
        level: that it was made for.
    """
    ax, rows = new_axes(ax, height=2.8), readings.sort_values("step")
    seen = rows["step"] <= forecast.until
    finite = [end for end in (forecast.step, forecast.until) if np.isfinite(end)]
    last = max(float(rows["step"].max()), 1.05 * max(finite))
    ax.axhspan(*level, color="#eceef4", linewidth=0, zorder=0)
    ax.axvspan(forecast.lo, min(forecast.hi, last), color=OKABE_ITO[0], alpha=0.18, linewidth=0, label="_interval")
    ax.plot(rows["step"][~seen], rows["value"][~seen], color=GREY, linewidth=1.4, label="_came")
    ax.plot(rows["step"][seen], rows["value"][seen], color=BLACK, linewidth=1.6, label="_seen")
    ax.axvline(forecast.until, color=BLACK, linewidth=0.8, linestyle=":", label="_until")
    if np.isfinite(forecast.step):
        ax.axvline(forecast.step, color=OKABE_ITO[0], linewidth=1.4, label="_forecast")
    set_linear_step_axis(ax, last)
    return ax
