"""Heads of the kinds that are known by name: their attention along the kind's relation over training."""

import pandas as pd
from matplotlib.axes import Axes

from stagewise.detection.criteria import DEFAULT
from stagewise.detection.head_kinds import KINDS
from stagewise.plot.colours import head_colours, marker
from stagewise.plot.step_axis import curve, label_ends, new_axes, set_step_axis
from stagewise.table import head_label, select


def head_curves(table: pd.DataFrame, batch: str) -> dict[str, Axes]:
    """Draw every head's mass over training, a panel a kind; of heads that never come near `named` the best is named.

    Args:
        table: with `AttentionTo` rows.
        batch: what they were measured on, for the titles.
    """
    panels, found = {}, DEFAULT.named
    for kind, relation in KINDS.items():
        rows = select(table, "AttentionTo", "along", relation=relation)
        ax = new_axes(None, 3.8, 2.7)
        set_step_axis(ax, rows["step"])
        ax.axhline(found, color="#888888", linewidth=0.8, linestyle=":", label="_found")
        largest = rows.groupby(["layer", "head"])["value"].max()
        for i, (head, colour) in enumerate(head_colours(rows).items()):
            named = largest[head] >= min(found / 2, largest.max())
            own = rows[(rows["layer"] == head[0]) & (rows["head"] == head[1])]
            curve(ax, own, head_label(*head) if named else f"_{head_label(*head)}", colour, marker(i))
        ax.set(xlabel="optimiser step", ylabel="attention mass", ylim=(0, 1.1 * max(found, rows["value"].max())))
        ax.set_title(f"{kind}: {batch}", loc="left", fontsize=10)
        label_ends(ax)
        panels[f"{kind} {batch}"] = ax
    return panels
