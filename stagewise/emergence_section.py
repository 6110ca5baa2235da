"""The report's section on emergence: the plateau, the abrupt rise, and the attention that moves with it."""

import html

import pandas as pd
from matplotlib.axes import Axes

from stagewise.emergence import Interval, emergence_interval
from stagewise.figure import Plot
from stagewise.palette import OKABE_ITO, heads_in, marker
from stagewise.prose import html_table
from stagewise.sections import Blocks, Measured
from stagewise.step_axis import curve, label_ends, new_axes
from stagewise.table import head_label, select

GROWTH = 0.2
"""Attention that grows by less over the run is no event."""

CAPTION = (
    "Accuracy (black) and the attention of each head along each relation. Look for a plateau, then for the attention "
    "that rises just before the accuracy, or with it. Ribbons: 95&nbsp;% intervals over the probe batch."
)


def emergence_section(measured: Measured) -> Blocks:
    """When what emerged, first to last, and the curves; nothing without `Accuracy` and `AttentionAlong`."""
    if not (measured.has("Accuracy") and measured.has("AttentionAlong")):
        return []
    table = measured.table
    rows = events(table)
    blocks: Blocks = [f"<p>{html.escape(in_words(rows))}</p>"]
    if rows:
        blocks.append(
            html_table(["event", "after step", "by step"], [[what, f"{a:g}", f"{b:g}"] for what, (a, b) in rows])
        )
    shown = pd.concat([select(table, "Accuracy", "accuracy"), select(table, "AttentionAlong", "mass")])
    return [*blocks, Plot("emergence", {"": rise(table)}, shown, CAPTION)]


def events(table: pd.DataFrame) -> list[tuple[str, Interval]]:
    """List when accuracy and each head's attention along a relation came half-way to their last value.

    Steps (after, by]; in order. What grew by less than GROWTH is left out.
    """
    curves = {"accuracy": select(table, "Accuracy", "accuracy")}
    for relation, layer, head in _heads(table):
        rows = select(table, "AttentionAlong", "mass", relation=relation, layer=layer, head=head)
        curves[f"{head_label(layer, head)}, {relation}"] = rows
    found = []
    for name, rows in curves.items():
        values = rows["value"].to_numpy()
        if values[-1] - values[0] >= GROWTH:
            half = (values[0] + values[-1]) / 2
            found.append((f"{name} passes {half:.2f}", emergence_interval(rows["step"].to_numpy(), values, half)))
    return sorted(found, key=lambda event: event[1])


def in_words(rows: list[tuple[str, Interval]]) -> str:
    """Say when it happened, in a sentence.

    >>> in_words([("accuracy passes 0.45", Interval(400.0, 450.0))])
    'Everything that emerged did so between steps 400 and 450: first accuracy passes 0.45.'
    """
    if not rows:
        return "Nothing emerged in this run: neither accuracy nor attention grew; a longer budget may show it."
    last = max(interval.hi for _, interval in rows)
    return f"Everything that emerged did so between steps {rows[0][1].lo:g} and {last:g}: first {rows[0][0]}."


def rise(table: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Draw accuracy, and attention along each relation by head, over training; on a linear step axis.

    Raises:
        ValueError: the table has no `Accuracy` or no `AttentionAlong` rows.

    Source: Zucchet et al. (2025), arXiv:2505.17863, Figures 4 and 17.
    """
    ax = new_axes(ax)
    moving = {what.rpartition(" passes ")[0] for what, _ in events(table)}
    for i, (relation, layer, head) in enumerate(_heads(table)):
        rows = select(table, "AttentionAlong", "mass", relation=relation, layer=layer, head=head)
        label = f"{head_label(layer, head)}, {relation}"
        curve(ax, rows, label if label in moving else f"_{label}", OKABE_ITO[i % len(OKABE_ITO)], marker(i))
    curve(ax, select(table, "Accuracy", "accuracy"), "accuracy", "#000000")
    ax.set(xlabel="optimiser step", ylabel="attention, accuracy", ylim=(0, 1), xlim=(0, int(table["step"].max())))
    ax.spines[["top", "right"]].set_visible(False)
    label_ends(ax)
    return ax


def _heads(table: pd.DataFrame) -> list[tuple[str, int, int]]:
    rows = select(table, "AttentionAlong", "mass")
    return [(str(relation), *head) for relation in rows["relation"].unique() for head in heads_in(rows)]
