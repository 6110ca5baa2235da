"""Early warning: what was read up to the cut, the forecast end of the plateau with its interval, and what came."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from stagewise.plot._colours import GREY, OKABE_ITO
from stagewise.plot._curves import BLACK
from stagewise.plot._step_axis import new_axes, set_linear_step_axis
from stagewise.statistics import Forecast
from stagewise.statistics._forecast import Level


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
