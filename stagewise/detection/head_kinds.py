"""Previous-token and induction heads of a model of text: which heads, since when, and which kind came first."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from stagewise.detection.onsets import find_onsets
from stagewise.table import head_label, select

KINDS = {"previous-token": "previous token", "induction": "induction"}
"""Kind of head -> its relation."""

FOUND = 0.3
"""Attention from which a head with an onset is called by a kind's name: a threshold by convention."""

Row = Mapping[Hashable, Any]


def head_onsets(table: pd.DataFrame) -> pd.DataFrame:
    """Return the onsets of every head's attention along each kind's relation, from its `AttentionTo` rows.

    As `find_onsets`, with the `kind`, the `largest` value, and whether it is `named`: it has an onset, and once had
    FOUND of its attention there.

    Raises:
        ValueError: the table has no such rows.
    """
    rows = select(table, "AttentionTo", "along")
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


def _label(row: Row) -> str:
    return head_label(int(row["layer"]), int(row["head"]))


def _interval(row: Row) -> str:
    end = "..." if np.isinf(row["t50_hi"]) else f"{row['t50_hi']:.0f}"
    return f"[{row['t50_lo']:.0f}, {end}]"
