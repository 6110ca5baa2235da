"""How a quantity is written on an axis: its label, unit and range, as its probe declares them."""

import textwrap

import pandas as pd
from matplotlib.axes import Axes

from stagewise.findings import _scores as scores
from stagewise.findings._scores import quantities_of
from stagewise.table import Quantity, head_label

_LABEL_WIDTH = 30
"""Characters of an axis label before it continues on a second line."""

_NEAR = 0.5
"""Part of a value axis from 0 that may be empty below the curves."""


def quantity_of(table: pd.DataFrame, probe: str, name: str) -> Quantity:
    """Return the declaration of a quantity: as the table declares it, or this library's probe of that name."""
    return quantities_of(table).get(probe, {}).get(name) or Quantity(name.replace("_", " "))


def set_value_axis(ax: Axes, quantity: Quantity, width: int = _LABEL_WIDTH) -> None:
    """Write the label with its unit on the y axis, and let the axis end where the quantity's range does. A lower end
    far below the curves is left out: call it when they are drawn.
    """
    ax.set_ylabel(escaped(textwrap.fill(quantity.axis, width)))
    (lo, hi), (least, most) = quantity.range, ax.get_ylim()
    if lo is not None and (hi is not None or least - lo < _NEAR * (most - lo)):
        ax.set_ylim(bottom=lo)
    if hi is not None:
        ax.set_ylim(top=hi)


def axes_of(rows: pd.DataFrame) -> list[str]:
    """Return the axes that the rows of a quantity have, layer and head first."""
    axes = scores.axes_of(rows)
    if "reference" in axes and "context" in axes:
        axes.remove("context")  # that a reference's model was trained on: it describes the reference, and is no axis
    return sorted(axes, key=lambda name: {"layer": 0, "head": 1}.get(name, 2))


def labels_in_words(labels: dict[str, object]) -> str:
    """Name a line by its labels on the axes of a table."""
    labels = {name: label for name, label in labels.items() if not pd.isna(label)}  # type: ignore[call-overload]
    words = []
    if {"layer", "head"} <= labels.keys():
        words.append(head_label(int(str(labels.pop("layer"))), int(str(labels.pop("head")))))
    return ", ".join(
        [*words, *(label if isinstance(label, str) else f"{name} {label}" for name, label in labels.items())]
    )


def escaped(text: str) -> str:
    """Return text as matplotlib draws it letter by letter: a dollar begins no formula."""
    return text.replace("$", r"\$")
