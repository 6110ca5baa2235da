"""Figures whose values are colours: attention maps, ablation matrices, clusters."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from stagewise.detection.stages import Stages
from stagewise.plot.colours import head_colours, ink
from stagewise.plot.step_axis import cell_edges, new_axes, set_step_axis, shade_stages
from stagewise.table import head_label, select

SCALE = "BuPu"
"""From almost white for nothing to dark: its lightness falls all the way."""

VECTOR_CELLS = 3000
"""Matrices of more cells are embedded as an image."""

LABELLED = 36
"""Heads whose names fit beside a matrix."""

CLUSTER_COLOURS = ("#c6dbef", "#fdd0a2", "#c7e9c0", "#dadaeb", "#f6c7c1", "#e3d6b8", "#d9d9d9", "#bfe5e2")
"""Light enough for the cluster's number to be read on them."""


def blend(weights: np.ndarray, colours: Sequence[str]) -> np.ndarray:
    """Mix heads' attention [head, query, key] into one image [query, key, rgb].

        pixel = prod_h (1 - a_h (1 - colour_h))

    White is no attention, a head's own colour is all of its attention; where several heads look is darker.

    >>> blend(np.array([[[0.0, 1.0]]]), ["#ff0000"]).tolist()
    [[[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]]
    """
    missing = 1 - np.array([to_rgb(colour) for colour in colours])
    layers: np.ndarray = 1 - weights[..., None] * missing[:, None, None, :]
    mixed: np.ndarray = layers.prod(0).clip(0, 1)
    return mixed


def patterns(table: pd.DataFrame, step: int, layer: int = 0) -> np.ndarray:
    """Return the mean attention of one layer at one step, [head, query, key].

    Raises:
        ValueError: the table has no such `MeanPattern` rows.
    """
    rows = select(table, "MeanPattern", "attention", step=step, layer=layer)
    size = [rows[name].nunique() for name in ("head", "query", "key")]
    return rows.sort_values(["head", "query", "key"])["value"].to_numpy(float).reshape(size)


def attention_map(
    table: pd.DataFrame,
    step: int,
    layer: int = 0,
    relations: Mapping[str, np.ndarray] | None = None,
    first_query: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the attention of all heads of a layer at one step in one map, each head in its colour.

    Args:
        table: with `MeanPattern` rows.
        step: a checkpoint.
        layer: of the model.
        relations: name -> boolean [query, key], outlined where given.
        first_query: leaves out the queries before it, such as those that no prediction is scored on.
        ax: where to draw.

    Raises:
        ValueError: the table has no such rows.

    Source: Yüksel et al. (2026), arXiv:2602.19143, Figures 1 and 2. Deviation: all keys are shown, so that
    the rows of a head sum to one; the paper cuts the maps to a square.
    """
    weights = patterns(table, step, layer)
    colours = [colour for (of_layer, _), colour in head_colours(table).items() if of_layer == layer]
    queries, keys = weights.shape[1:]
    ax = new_axes(ax, 3.6, 3.4)
    extent = (-0.5, keys - 0.5, queries - 0.5, first_query - 0.5)
    ax.imshow(blend(weights, colours)[first_query:], extent=extent, interpolation="none", aspect="equal")
    for name, mask in (relations or {}).items():
        _outline(ax, name, mask, first_query)
    name = f"step {step}" if table["layer"].nunique() < 2 else f"layer {layer}, step {step}"
    room = 10 + 2.2 * max(map(len, relations or ()), default=0)  # of the slanted names, points
    ax.set_title(name, loc="left", fontsize=10, fontweight="bold", pad=room)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("key position")
    ax.set_ylabel("query position")
    return ax


def _outline(ax: Axes, name: str, mask: np.ndarray, first_query: int) -> None:
    """Draw the border of a relation's cells, and its name above its first row."""
    inside = np.pad(mask[first_query:], 1)
    edges = []
    for row, column in zip(*np.nonzero(inside[1:] != inside[:-1]), strict=True):
        edges.append([(column - 1.5, first_query + row - 0.5), (column - 0.5, first_query + row - 0.5)])
    for row, column in zip(*np.nonzero(inside[:, 1:] != inside[:, :-1]), strict=True):
        edges.append([(column - 0.5, first_query + row - 1.5), (column - 0.5, first_query + row - 0.5)])
    ax.add_collection(LineCollection(edges, colors="#555555", linewidths=0.6))
    if (keys := np.flatnonzero(mask[first_query])).size:
        ax.text(keys.mean(), first_query - 0.9, name, rotation=40, rotation_mode="anchor", fontsize=7, color="#444444")


def ablation_matrix(
    table: pd.DataFrame,
    kind: str = "zero",
    quantity: str = "kl",
    control: str = "head",
    stages: Stages | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw what ablating each head does at each step, nats: `quantity` is "kl" or "loss_change".

    Args:
        table: with `HeadAblation` rows.
        kind: of ablation.
        quantity: which effect.
        control: "head", or "random head" for the matched control.
        stages: their boundaries are drawn where given.
        ax: where to draw.

    Raises:
        ValueError: the table has no such rows.

    Source: Michel et al. (2019), Are Sixteen Heads Really Better than One?, arXiv:1905.10650.
    """
    rows = select(table, "HeadAblation", quantity, kind=kind)
    # Of the heads and the control together: the two are compared.
    lowest, largest = min(0.0, float(rows["value"].min())), float(rows["value"].max())
    rows = select(rows, "HeadAblation", quantity, control=control)
    wide = _by_head(rows)
    ax = new_axes(ax, 7.6, 0.9 + _rows_height(len(wide)))
    mesh = ax.pcolormesh(
        cell_edges(wide.columns.to_numpy()), np.arange(len(wide) + 1) - 0.5, wide.to_numpy(float),
        cmap=SCALE, vmin=lowest, vmax=largest, rasterized=wide.size > VECTOR_CELLS, edgecolor="face",
        linewidth=0.2,
    )  # fmt: skip
    ax.figure.colorbar(mesh, ax=ax, pad=0.02, label=f"{'KL' if quantity == 'kl' else 'loss change'}, nats")
    _finish_strip(ax, wide, stages)
    what = "the head" if control == "head" else f"a {control}"
    ax.set_title(f"{kind} ablation of {what}", loc="left", fontsize=9.5, pad=6 if stages is None else 18)
    return ax


def ablation_with_control(
    table: pd.DataFrame, kind: str = "zero", quantity: str = "kl", stages: Stages | None = None
) -> Figure:
    """Draw `ablation_matrix` and its matched control, on one colour scale.

    Raises:
        ValueError: the table has no such rows.
    """
    rows = select(table, "HeadAblation", quantity, kind=kind)
    controls = rows["control"].unique().tolist()
    heads = len(rows[["layer", "head"]].drop_duplicates())
    figure = Figure(figsize=(7.6, len(controls) * (1.15 + _rows_height(heads))), layout="constrained")
    for control, ax in zip(controls, figure.subplots(len(controls), 1, squeeze=False).flat, strict=True):
        ablation_matrix(table, kind, quantity, control, stages=stages, ax=ax)
    return figure


def clusters(table: pd.DataFrame, stages: Stages | None = None, ax: Axes | None = None) -> Axes:
    """Draw which cluster each head's attention belongs to at each step.

    Raises:
        ValueError: the table has no `PatternClusters` rows.
    """
    wide = _by_head(select(table, "PatternClusters", "cluster"))
    ax = new_axes(ax, 7.6, 0.9 + _rows_height(len(wide)))
    edges = cell_edges(wide.columns.to_numpy())
    colours = ListedColormap(CLUSTER_COLOURS)
    values = wide.to_numpy(float)
    ax.pcolormesh(
        edges, np.arange(len(wide) + 1) - 0.5, values % len(CLUSTER_COLOURS), cmap=colours, vmin=-0.5,
        vmax=len(CLUSTER_COLOURS) - 0.5, rasterized=wide.size > VECTOR_CELLS, edgecolor="face", linewidth=0.2,
    )  # fmt: skip
    _finish_strip(ax, wide, stages)
    for row, labels in enumerate(values):
        starts = [0, *(np.flatnonzero(np.diff(labels)) + 1), len(labels)]
        for start, end in itertools.pairwise(starts):
            _number_run(ax, edges[start], edges[end], row, int(labels[start]))
    return ax


def _number_run(ax: Axes, start: float, end: float, row: int, label: int) -> None:
    """Write a cluster's number in the middle of a run of checkpoints, where there is room."""
    to_axes = ax.transData + ax.transAxes.inverted()
    left, right = (float(to_axes.transform((x, row))[0]) for x in (start, end))
    if right - left > 0.02:
        middle = (left + right) / 2
        at = ax.get_yaxis_transform()
        ax.text(middle, row, str(label), transform=at, ha="center", va="center", fontsize=8.5)


def centroids(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw the mean profile of each cluster: its attention mass at each offset and on each relation.

    Raises:
        ValueError: the table has no `PatternClusters` rows.
    """
    rows = select(table, "PatternClusters", "centroid")
    features = rows["feature"].drop_duplicates().tolist()
    wide = rows.pivot(index="cluster", columns="feature", values="value")[features]
    ax = new_axes(ax, 7.6, 0.9 + 0.34 * len(wide))
    mesh = ax.pcolormesh(wide.to_numpy(float), cmap=SCALE, vmin=0, vmax=1, edgecolor="white", linewidth=0.5)
    ax.invert_yaxis()
    ax.set_xticks(np.arange(len(features)) + 0.5, [name.removeprefix("offset ") for name in features])
    ax.set_yticks(np.arange(len(wide)) + 0.5, [f"cluster {float(label):g}" for label in wide.index])
    if relations := [i for i, name in enumerate(features) if not name.startswith("offset ")]:
        ax.axvline(relations[0], color="#333333", linewidth=1.2)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("offset (positions back), then relations")
    ax.figure.colorbar(mesh, ax=ax, pad=0.02, label="attention mass")
    return ax


def _rows_height(heads: int) -> float:
    """Return the height of a strip of heads, inches."""
    return min(0.32 * heads, 8.0)


def _by_head(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.pivot(index=["layer", "head"], columns="step", values="value").sort_index()


def _finish_strip(ax: Axes, wide: pd.DataFrame, stages: Stages | None) -> None:
    set_step_axis(ax, wide.columns.to_numpy())
    shade_stages(ax, stages, numbers_only=True)
    for line in ax.get_lines():
        line.set(zorder=3, color="#222222", linestyle=(0, (3, 2)))
    every = -(-len(wide) // LABELLED)
    named = list(wide.index[::every])
    ax.set_yticks(range(0, len(wide), every), [head_label(*head) for head in named])
    ax.set_ylim(len(wide) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    colours = head_colours(wide.index.to_frame(index=False))
    for tick, head in zip(ax.get_yticklabels(), named, strict=True):
        tick.set(color=ink(colours[head]), fontweight="bold")
