"""Curves of heads over training: attention, entropy, what they write."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes

from stagewise.event import HEAD_KINDS
from stagewise.findings import Stages
from stagewise.plot import axes as step_axis
from stagewise.plot.curves import family, finish, quantity_of, set_value_axis, theory_curves
from stagewise.statistics import DEFAULT
from stagewise.table import Head, head_label, select
from stagewise.words import headed


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


def specialisation(table: pd.DataFrame, stages: Stages | None = None, ax: Axes | None = None) -> Axes:
    """Draw the competition and the coverage index of the heads over training.

    Source: the competitive and cooperative phases of Yüksel et al. (2026), arXiv:2602.19143, section 3.
    """
    rows = select(table, "HeadSpecialisation")
    quantities = {name: quantity_of(table, "HeadSpecialisation", name) for name in ("competition", "coverage")}
    rows = rows[rows["quantity"].isin(quantities)]
    ax = step_axis.new_axes(ax, height=2.6)
    family(ax, rows, "quantity", list(quantities), stages, lambda name: quantities[str(name)].label)
    set_value_axis(ax, quantities["coverage"])
    ax.set_ylabel("index")
    return finish(ax)


def head_curves(table: pd.DataFrame, batch: str, named: float = DEFAULT.named) -> dict[str, Axes]:
    """Draw every head's mass over training, a panel a kind; where no head comes near `named`, the best one is labelled.

    Args:
        table: with `AttentionTo` rows.
        batch: what they were measured on, for the titles.
        named: the mass from which a head has a kind's name.
    """
    step_axis.check_one_run(table)
    ylabel = quantity_of(table, "AttentionTo", "mass").axis
    panels = {}
    for kind, relation in HEAD_KINDS.items():
        ax = _curves_of_all_heads(select(table, "AttentionTo", "along", relation=relation), named)
        ax.set(xlabel=headed("step"), ylabel=ylabel)
        ax.set_title(f"{kind}: {batch}", loc="left", fontsize=10)
        step_axis.label_ends(ax)
        panels[f"{kind} {batch}"] = ax
    return panels


def _curves_of_all_heads(rows: pd.DataFrame, threshold: float) -> Axes:
    """Draw a line a head; those that come to half of the threshold, or none does, the largest, are labelled."""
    ax = step_axis.new_axes(None, 3.8, 2.7)
    step_axis.set_step_axis(ax, rows["step"])
    ax.axhline(threshold, color="#888888", linewidth=0.8, linestyle=":", label="_threshold")
    largest, colours = rows.groupby(["layer", "head"])["value"].max(), step_axis.head_colours(rows)
    for i, (head, line) in enumerate(_by_head(rows).items()):
        is_labelled = largest[head] >= min(threshold / 2, largest.max())
        label = head_label(*head) if is_labelled else f"_{head_label(*head)}"
        step_axis.curve(ax, line, label, colours[head], step_axis.marker(i))
    ax.set_ylim(0, 1.1 * max(threshold, rows["value"].max()))
    return ax


def _by_head(rows: pd.DataFrame) -> Mapping[Head, pd.DataFrame]:
    """Return the rows of each head, in order."""
    return {(int(str(layer)), int(str(head))): line for (layer, head), line in rows.groupby(["layer", "head"])}


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
