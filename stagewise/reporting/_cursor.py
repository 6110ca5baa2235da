"""Data of a figure for the page's step cursor: where its step axes are, and the values of their curves."""

import html
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from stagewise.plot._step_axis import ALONE

POINTS = 72
"""An inch has, and an SVG of matplotlib counts in them."""

CURVES = 40
"""Curves of one set of axes whose values the cursor reads, at most."""

DIGITS = 4
"""Significant ones of a value that the cursor reads."""


def name_curves(figure: Figure) -> None:
    """Give the curves on step axes a name, which becomes their id in the drawing."""
    for number, ax in enumerate(_on_steps(figure)):
        for place, line in enumerate(_curves(ax)):
            line.set_gid(f"axes{number}-curve{place}")


def cursor_attribute(figure: Figure) -> str:
    """Return the attribute of a drawing that the script of the page reads; empty where no axis is one of steps.

    For each step axis: its name, its place [left, right, top, bottom] in points from the drawing's upper left corner,
    the scale [last step, step up to which it is linear, width of that part in decades, first step], and its curves:
    [id, label, colour, steps, values].
    """
    axes = [_described(figure, number, ax) for number, ax in enumerate(_on_steps(figure))]
    return f' data-axes="{html.escape(json.dumps(axes, separators=(",", ":")))}"' if axes else ""


def _on_steps(figure: Figure) -> Iterator[Axes]:
    return (ax for ax in figure.axes if ax.get_xscale() == "symlog")


def _curves(ax: Axes) -> list[Line2D]:
    lines = [line for line in ax.get_lines() if len(np.asarray(line.get_xdata())) > 1]
    return [line for line in lines if line.get_label() == ALONE or not str(line.get_label()).startswith("_")][:CURVES]


def _as_shown(text: str) -> str:
    r"""Return a text for matplotlib as it draws it: `\$` is a dollar, which begins no formula."""
    return text.replace(r"\$", "$")


def _described(figure: Figure, number: int, ax: Axes) -> dict[str, Any]:
    width, height = (POINTS * inches for inches in figure.get_size_inches())
    box, scale, name = ax.get_position(), ax.xaxis.get_transform(), _as_shown(" ".join(ax.get_ylabel().split()))
    place = [box.x0 * width, box.x1 * width, (1 - box.y1) * height, (1 - box.y0) * height]
    curves = [
        [
            f"axes{number}-curve{i}",
            name if line.get_label() == ALONE else _as_shown(str(line.get_label())),
            to_hex(line.get_color()),
            [float(x) for x in np.asarray(line.get_xdata(), dtype=float)],
            [float(f"{y:.{DIGITS}g}") if np.isfinite(y) else None for y in np.asarray(line.get_ydata(), dtype=float)],
        ]
        for i, line in enumerate(_curves(ax))
    ]
    return {
        "name": name,
        "place": [round(float(edge), 1) for edge in place],
        "scale": [
            float(ax.get_xlim()[1]),
            *(float(getattr(scale, name, 1)) for name in ("linthresh", "linscale")),
            float(ax.get_xlim()[0]),
        ],
        "curves": curves,
    }
