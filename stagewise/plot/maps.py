"""Maps of attention: all heads of a layer in one, each in its colour."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.ticker import MaxNLocator

from stagewise.plot.axes import check_one_run, head_colours, new_axes
from stagewise.table import Head, maps_in, select
from stagewise.words import at

_APART = 0.05
"""Part of the map's width that two names of relations are apart at least, to be written beside each other."""


def _blend(weights: np.ndarray, colours: Sequence[str]) -> np.ndarray:
    """Mix heads' attention [head, query, key] into one image [query, key, rgb].

        pixel = prod_h (1 - a_h (1 - colour_h))

    White is no attention, a head's own colour is all of its attention; where several heads look is darker.
    """
    missing = 1 - np.array([to_rgb(colour) for colour in colours])
    layers: np.ndarray = 1 - weights[..., None] * missing[:, None, None, :]
    mixed: np.ndarray = layers.prod(0).clip(0, 1)
    return mixed


def patterns(table: pd.DataFrame, step: int, layer: int | None = 0) -> np.ndarray:
    """Return the mean attention of one layer, or of all one after the other (None), at one step, [head, query, key]."""
    of_layer = {} if layer is None else {"layer": layer}
    rows = select(table, "MeanPattern", "attention", step=step, **of_layer).sort_values(["layer", "head"])
    check_one_run(rows)
    if "map" not in rows:
        raise ValueError("the rows of MeanPattern were read without their maps, or an earlier version measured them")
    return maps_in(rows)


def attention_map(
    table: pd.DataFrame,
    step: int,
    layer: int = 0,
    relations: Mapping[str, np.ndarray] | None = None,
    first_query: int = 0,
    ax: Axes | None = None,
    colours: Mapping[Head, str] | None = None,
) -> Axes:
    """Draw the attention of all heads of a layer at one step in one map, each head in its colour.

    Args:
        table: with `MeanPattern` rows.
        step: a checkpoint.
        layer: of the model.
        relations: name -> boolean [query, key], outlined where given.
        first_query: leaves out the queries before it, such as those that no prediction is scored on.
        ax: where to draw; a new figure if not given.
        colours: of every head; None takes those of all other figures.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 2. Deviation: all keys are shown, so that
    the rows of a head sum to one; the paper crops the maps to a square.
    """
    weights = patterns(table, step, layer)
    chosen = [colour for (at_layer, _), colour in (colours or head_colours(table)).items() if at_layer == layer]
    queries, keys = weights.shape[1:]
    ax = new_axes(ax, 3.6, 3.4)
    extent = (-0.5, keys - 0.5, queries - 0.5, first_query - 0.5)
    ax.imshow(_blend(weights, chosen)[first_query:], extent=extent, interpolation="none", aspect="equal")
    names: dict[tuple[float, float], list[str]] = {}
    for relation, mask in (relations or {}).items():
        _outline(ax, mask, first_query)
        if (place := _start(mask, first_query)) is not None:
            beside = (other for other in names if max(abs(np.subtract(other, place))) <= _APART * keys)
            names.setdefault(next(beside, place), []).append(relation)
    for place, relations_here in names.items():
        text = ", ".join(relations_here)
        ax.text(*place, text, rotation=40, rotation_mode="anchor", fontsize=7, color="#444444")
    name = at(step) if table["layer"].nunique() < 2 else f"layer {layer}, {at(step)}"
    slanted = (", ".join(relations_here) for relations_here in names.values())
    room = 10 + 2.2 * max(map(len, slanted), default=0)  # points
    ax.set_title(name, loc="left", fontsize=10, fontweight="bold", pad=room)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("key position")
    ax.set_ylabel("query position")
    return ax


def _start(mask: np.ndarray, first_query: int) -> tuple[float, float] | None:
    """Return where a relation's name goes: above its first row."""
    queries = np.flatnonzero(mask[first_query:].any(1))
    if not len(queries):
        return None
    query = first_query + int(queries[0])
    return float(np.flatnonzero(mask[query]).mean()), query - 0.9


def _outline(ax: Axes, mask: np.ndarray, first_query: int) -> None:
    """Draw the border of a relation's cells."""
    inside = np.pad(mask[first_query:], 1)
    borders = ((1, 0, inside[1:] != inside[:-1]), (0, 1, inside[:, 1:] != inside[:, :-1]))
    edges = [
        [(column - 0.5 - across, first_query + row - 0.5 - down), (column - 0.5, first_query + row - 0.5)]
        for across, down, is_border in borders
        for row, column in np.argwhere(is_border)
    ]
    ax.add_collection(LineCollection(edges, colors="#555555", linewidths=0.6))
