"""The picture of onsets: every score that was examined, those with an onset in colour, with the interval of t50."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from stagewise.event import labels_of
from stagewise.findings import Stages
from stagewise.findings.scores import curves_of
from stagewise.plot import axes as step_axis
from stagewise.plot.axes import GREY, head_colours, marker
from stagewise.plot.curves import escaped, quantity_of, set_value_axis
from stagewise.words import curve_label

_KINDS = 6
"""Kinds of scores that are drawn; the others are in the table."""

_LABELLED = 10
"""Onsets of a panel that are labelled and coloured, the first ones."""

_GREYS = 40
"""Further curves of a panel that are drawn, grey: those that moved most; the others are in the table."""


def onset_curves(table: pd.DataFrame, stages: Stages) -> Figure:
    """Draw a panel for each kind of score that has an onset, or of those that moved most if none has any.

    Scores without onset are grey, of many those that moved most. A horizontal bar at half of the way is the 95 %
    interval of t50; it ends in an arrow where the last checkpoint does not show the end of the rise.
    """
    if stages.onsets.empty:
        raise ValueError("no score was examined: measure a quantity of which up or down is progress, as AttentionTo's")
    step_axis.check_one_run(table)
    kinds = kinds_shown(stages.onsets)
    figure, axes = step_axis.panels(len(kinds), 2.4 * len(kinds))
    for ax, (_, rows) in zip(axes, kinds, strict=True):
        _panel(ax, table, rows, stages)
        ax.set_xlabel("")
    axes[-1].set_xlabel(step_axis.step_axis_label())
    return figure


def kinds_shown(onsets: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return the kinds of scores to draw with their rows: those with an onset, the earliest first."""
    name = onsets["probe"] + " " + onsets["quantity"] + (" " + onsets["relation"]).fillna("")
    moved = (onsets["after"] - onsets["before"]).abs()
    kinds = name[onsets["onset"]] if onsets["onset"].any() else name[moved.nlargest(_KINDS).index]
    return [(kind, onsets[name == kind]) for kind in kinds.drop_duplicates()[:_KINDS]]


def _panel(ax: Axes, table: pd.DataFrame, rows: pd.DataFrame, stages: Stages) -> None:
    step_axis.set_step_axis(ax, table["step"])
    step_axis.shade_stages(ax, stages, numbers_only=True)
    colours = head_colours(rows)
    with_onset = rows[rows["onset"]][:_LABELLED]
    # A line is named by its labels on all axes but the relation, which the panel names; it may have several onsets.
    labels = ({k: v for k, v in labels_of(row).items() if k != "relation"} for row in rows.to_dict("records"))
    line_of = pd.Series([curve_label(each) for each in labels], rows.index)
    others = rows[~line_of.isin(line_of[with_onset.index]) & ~line_of.duplicated()]
    moved = (others["after"] - others["before"]).abs().fillna(0).nlargest(_GREYS)
    groups = list(with_onset.groupby(line_of[with_onset.index], sort=False))
    curves = curves_of(table, pd.concat([others.loc[moved.index], *(onsets[:1] for _, onsets in groups)]))
    for line in curves[: len(moved)]:
        ax.plot(line["step"], line["value"], color=GREY, linewidth=0.9, label="_without", zorder=1)
    first = rows.iloc[0]
    quantity = quantity_of(table, str(first["probe"]), str(first["quantity"]))
    for i, ((name, onsets), line) in enumerate(zip(groups, curves[len(moved) :], strict=True)):
        head = onsets.iloc[0]
        colour = "#222222" if pd.isna(head["head"]) else colours[int(head["layer"]), int(head["head"])]
        step_axis.curve(ax, line, str(name) or quantity.label, colour, marker(i))
        for row in onsets.to_dict("records"):
            _interval(ax, row["t50_lo"], row["t50_hi"], (row["before"] + row["after"]) / 2, colour)
    set_value_axis(ax, quantity)
    if not pd.isna(first["relation"]):
        ax.set_ylabel(f"{ax.get_ylabel()}\n({escaped(str(first['relation']))})")
    step_axis.label_ends(ax)


def _interval(ax: Axes, lo: float, hi: float, level: float, colour: str) -> None:
    last = ax.get_xlim()[1]
    ax.plot(
        [lo, min(hi, last)], [level, level], color=colour, linewidth=3.2, alpha=0.8, solid_capstyle="butt",
        marker="|" if hi <= last else ">", markersize=8, markevery=[-1] if hi > last else None, label="_t50", zorder=4,
    )  # fmt: skip
