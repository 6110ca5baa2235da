"""One colour a head, a relation, a reference, the same in every figure, and distinct in grey too."""

from collections.abc import Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.colors import to_hex, to_rgb

from stagewise.table import Head, heads_in

OKABE_ITO = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
"""Okabe and Ito (2008), Color Universal Design; no yellow, too light for lines, and no black, for mixing."""

HEADS = (*OKABE_ITO, "#882255", "#999933", "#332288")
"""For more than six heads three colours of Paul Tol's "muted" scheme besides: wine, olive, indigo."""

_MARKERS = "os^DvPX<>*"

GREY = "#b9bcc6"
"""The colour of lines for comparison."""


def head_colours(table: pd.DataFrame) -> dict[Head, str]:
    """Give every head of the table its colour; from the tenth head on they repeat."""
    return {head: HEADS[i % len(HEADS)] for i, head in enumerate(heads_in(table))}


def ordered_colours(names: Sequence[object]) -> dict[object, str]:
    """Give ordered things colours from dark to light, the same to the n-th of two families of the same size."""
    positions = np.linspace(0.12, 0.76, max(len(names), 2))
    scale = matplotlib.colormaps["magma"]
    return {name: to_hex(scale(position)) for name, position in zip(names, positions, strict=False)}


def marker(i: int) -> str:
    """Return the marker of the i-th line of a figure: it distinguishes lines in grey."""
    return _MARKERS[i % len(_MARKERS)]


def ink(colour: str) -> tuple[float, float, float]:
    """Darken a colour until text in it is readable on white."""
    red, green, blue = to_rgb(colour)
    luminance = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
    # 0.18 is the luminance that has a contrast of 4.5 to 1 on white.
    factor = min(1.0, (0.18 / luminance) ** (1 / 2.2)) if luminance > 0 else 1.0
    return red * factor, green * factor, blue * factor
