"""Curves of heads over training: attention, entropy, what they write."""

import pandas as pd
from matplotlib.axes import Axes

from stagewise.findings import Stages
from stagewise.plot import axes as step_axis
from stagewise.plot.curves import family, finish, quantity_of, set_value_axis, theory_curves
from stagewise.table import Head, head_label, select


def head_masses(
    table: pd.DataFrame,
    layer: int,
    head: int,
    stages: Stages | None = None,
    ax: Axes | None = None,
    theory: pd.DataFrame | None = None,
) -> Axes:
    """Draw one head's attention mass on each relation over training, theory dashed.

    Source: Yüksel et al. (2026), arXiv:2602.19143, the span masses of Figure B.
    """
    relations = select(table, "AttentionTo", "mass")["relation"].unique().tolist()
    rows = select(table, "AttentionTo", "mass", layer=layer, head=head)
    ax = family(step_axis.new_axes(ax, 3.8, 2.7), rows, "relation", relations, stages, small=True)
    if theory is not None:
        predicted = select(theory, "AttentionTo", "mass", layer=layer, head=head)
        theory_curves(ax, predicted, "relation", step_axis.ordered_colours(relations))
    name_head(ax, table, (layer, head))
    set_value_axis(ax, quantity_of(table, "AttentionTo", "mass"))
    return finish(ax)


def moved_most(rows: pd.DataFrame, most: int) -> list[Head]:
    """Return the heads with a value that changed most over training, in order."""
    others = [name for name in ("layer", "head", "relation", "feature", "offset") if name in rows]
    values = rows.groupby(others)["value"]
    moved = (values.max() - values.min()).groupby(["layer", "head"]).max()
    return sorted((int(layer), int(head)) for layer, head in moved.nlargest(most).index)


def name_head(ax: Axes, table: pd.DataFrame, head: Head) -> None:
    """Write a head's name over its axes, in its colour."""
    colour = step_axis.ink(step_axis.head_colours(table)[head])
    ax.set_title(head_label(*head), loc="left", color=colour, fontweight="bold", fontsize=10, pad=16)
