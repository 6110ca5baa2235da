"""Previous-token and induction heads of a model of text: which heads, since when, and which kind came first."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from stagewise.detection.onsets import find_onsets
from stagewise.plot.colours import head_colours, marker
from stagewise.plot.step_axis import curve, label_ends, new_axes, set_step_axis
from stagewise.table import head_label, select

KINDS = {"previous-token": "previous token", "induction": "induction"}
"""Kind of head -> its relation."""

FOUND = 0.3
"""Attention from which a head with an onset is called by a kind's name: a threshold by convention."""

Row = Mapping[Hashable, Any]


def head_onsets(table: pd.DataFrame) -> pd.DataFrame:
    """Return the onsets of every head's attention along each kind's relation, from its `AttentionAlong` rows.

    As `find_onsets`, with the `kind`, the `largest` value, and whether it is `named`: it has an onset, and once had
    FOUND of its attention there.

    Raises:
        ValueError: the table has no such rows.
    """
    rows = select(table, "AttentionAlong", "mass")
    onsets = find_onsets(rows[rows["relation"].isin(KINDS.values())])
    largest = rows.groupby(["relation", "layer", "head"])["value"].max().rename("largest").reset_index()
    kinds = {relation: kind for kind, relation in KINDS.items()}
    onsets = onsets.merge(largest, on=["relation", "layer", "head"])
    return onsets.assign(kind=onsets["relation"].map(kinds), named=onsets["onset"] & (onsets["largest"] >= FOUND))


def heads_in_words(onsets: pd.DataFrame, last: int) -> str:
    """Say which heads of each kind there are, since when, and which kind came first, if that can be said.

    Args:
        onsets: from `head_onsets`.
        last: the last step.
    """
    parts, first = [], {}
    for kind in KINDS:
        of_kind = onsets[onsets["kind"] == kind]
        named = of_kind[of_kind["named"]].sort_values("t50", kind="stable").to_dict("records")
        if named:
            first[kind] = named[0]
            parts.append(f"{kind} heads, and the step at which each had risen half-way: {_listed(named)}")
        else:
            *_, best = of_kind.sort_values("largest").to_dict("records")
            parts.append(
                f"no {kind} head by step {last} (the largest mass is {best['largest']:.2f}, of {_label(best)})"
            )
    return " ".join([f"{'; '.join(parts)}.", *_order(first, onsets)])


def _listed(named: Sequence[Row]) -> str:
    return ", ".join(f"{_label(row)} ({row['t50']:.0f} {_interval(row)})" for row in named)


def _order(first: Mapping[str, Row], onsets: pd.DataFrame) -> list[str]:
    if not first:
        return []
    early, *others = sorted(first, key=lambda kind: float(first[kind]["t50"]))
    if not others:
        (late,) = (kind for kind in KINDS if kind != early)
        if onsets.loc[onsets["kind"] == late, "largest"].max() >= FOUND:
            return []
        return [f"So {early} heads come before {late} heads, if those come at all."]
    (late,) = others
    if first[early]["t50_hi"] <= first[late]["t50_lo"]:
        return [f"So {early} heads come before {late} heads."]
    return [f"Which kind came first cannot be said: the intervals of {early} and {late} heads overlap."]


def head_rows(onsets: pd.DataFrame, batch: str) -> list[list[object]]:
    """Return the report's cells on one batch: heads with a name, and the best one of each kind."""
    best = onsets.groupby("kind")["largest"].transform("max")
    shown = onsets[onsets["named"] | (onsets["largest"] == best)]
    order = shown["kind"].map(list(KINDS).index)
    return [
        [
            *(batch, row["kind"], _label(row), f"{row['before']:.2f}", f"{row['largest']:.2f}", f"{row['last']:.2f}"),
            f"{row['t50']:.0f} {_interval(row)}" if row["onset"] else f"no onset: {row['reason']}",
        ]
        for row in shown.assign(order=order).sort_values(["order", "t50"], kind="stable").to_dict("records")
    ]


def head_curves(table: pd.DataFrame, batch: str) -> dict[str, Axes]:
    """Draw every head's mass over training, a panel a kind; of the heads that never come near FOUND the best is named.

    Args:
        table: with `AttentionAlong` rows.
        batch: what they were measured on, for the titles.
    """
    panels = {}
    for kind, relation in KINDS.items():
        rows = select(table, "AttentionAlong", "mass", relation=relation)
        ax = new_axes(None, 3.8, 2.7)
        set_step_axis(ax, rows["step"])
        ax.axhline(FOUND, color="#888888", linewidth=0.8, linestyle=":", label="_found")
        largest = rows.groupby(["layer", "head"])["value"].max()
        for i, (head, colour) in enumerate(head_colours(rows).items()):
            named = largest[head] >= min(FOUND / 2, largest.max())
            own = rows[(rows["layer"] == head[0]) & (rows["head"] == head[1])]
            curve(ax, own, head_label(*head) if named else f"_{head_label(*head)}", colour, marker(i))
        ax.set(xlabel="optimiser step", ylabel="attention mass", ylim=(0, 1.1 * max(FOUND, rows["value"].max())))
        ax.set_title(f"{kind}: {batch}", loc="left", fontsize=10)
        label_ends(ax)
        panels[f"{kind} {batch}"] = ax
    return panels


def _label(row: Row) -> str:
    return head_label(int(row["layer"]), int(row["head"]))


def _interval(row: Row) -> str:
    end = "..." if np.isinf(row["t50_hi"]) else f"{row['t50_hi']:.0f}"
    return f"[{row['t50_lo']:.0f}, {end}]"
