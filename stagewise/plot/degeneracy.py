"""Local learning coefficients over training: of the whole model with the drift of its chains, and of each head."""

import pandas as pd
from matplotlib.figure import Figure

from stagewise.detection.stages import Stages
from stagewise.plot.colours import GREY, head_colours, marker
from stagewise.plot.curves import BLACK, finish, prepared
from stagewise.plot.quantities import quantity_of, set_value_axis
from stagewise.plot.step_axis import curve
from stagewise.table import head_label, heads_in, select

PROBE = "LearningCoefficient"

HEADS = 12
"""Heads that are drawn: those whose coefficient moved most."""


def learning_coefficients(table: pd.DataFrame, stages: Stages | None = None) -> Figure:
    """Draw the local learning coefficient over training, its drift dashed; below it those of single heads, if any.

    Args:
        table: from `learning_coefficients`, of one run.
        stages: shaded where given.

    Raises:
        ValueError: the table has no such rows.
    """
    whole, drift = select(table, PROBE, "whole_model"), select(table, PROBE, "drift")
    heads = table[(table["probe"] == PROBE) & (table["quantity"] == "of_head")]
    panels = 2 if len(heads) else 1
    figure = Figure(figsize=(7.6, 2.6 * panels), layout="constrained")
    first, *others = figure.subplots(panels, 1, squeeze=False)[:, 0]
    prepared(first, whole, stages)
    first.axhline(0, color=GREY, linewidth=0.6, zorder=1)
    curve(first, drift, "drift", GREY, theory=True)
    curve(first, whole, "whole model", BLACK, "o")
    set_value_axis(first, quantity_of(table, PROBE, "whole_model"))
    finish(first)
    for ax in others:
        prepared(ax, heads, stages)
        first.set_xlabel("")
        ax.axhline(0, color=GREY, linewidth=0.6, zorder=1)
        colours = head_colours(heads)
        for number, (layer, head) in enumerate(_moved_most(heads)):
            rows = heads[(heads["layer"] == layer) & (heads["head"] == head)]
            curve(ax, rows, head_label(layer, head), colours[layer, head], marker(number))
        set_value_axis(ax, quantity_of(table, PROBE, "of_head"))
        finish(ax)
    return figure


def _moved_most(heads: pd.DataFrame) -> list[tuple[int, int]]:
    values = heads.groupby(["layer", "head"])["value"]
    moved = values.max() - values.min()
    return sorted(heads_in(heads), key=lambda head: -float(moved[head]))[:HEADS]
