"""Previous-token and induction heads: since when each attends along its relation, in a frame, a sentence and cells."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from stagewise.criteria import DEFAULT, StageCriteria
from stagewise.findings.onsets import find_onsets
from stagewise.papers.wikitext.text_figures import HEAD_KINDS
from stagewise.table import head_label, select
from stagewise.words import at, half_way, no_onset, unit

_Row = Mapping[Any, Any]


def head_onsets(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> pd.DataFrame:
    """Return the onsets of every head's attention along each kind's relation, with the `kind`, the `largest` value, and
    whether it is `named`: it has an onset, and once had 0.3 (`criteria.named`) there.
    """
    rows = select(table, "AttentionTo", "along")
    onsets = find_onsets(rows[rows["relation"].isin(HEAD_KINDS.values())], criteria)
    largest = rows.groupby(["relation", "layer", "head"])["value"].max().rename("largest").reset_index()
    kinds = {relation: kind for kind, relation in HEAD_KINDS.items()}
    onsets = onsets.merge(largest, on=["relation", "layer", "head"])
    named = onsets["onset"] & (onsets["largest"] >= criteria.named)
    return onsets.assign(kind=onsets["relation"].map(kinds), named=named)


def heads(onsets: pd.DataFrame, last: int, criteria: StageCriteria = DEFAULT) -> str:
    """Say which heads of each kind there are, since when, and which kind surely came first."""
    parts, first = [], {}
    for kind in HEAD_KINDS:
        of_kind = onsets[onsets["kind"] == kind]
        named = of_kind[of_kind["named"]].sort_values("t50", kind="stable").to_dict("records")
        if named:
            first[kind] = named[0]
            since = ", ".join(f"{_head(row)} ({half_way(row)})" for row in named)
            parts.append(f"{kind} heads, and the {unit()} at which each had risen half-way: {since}")
        else:
            *_, best = of_kind.sort_values("largest").to_dict("records")
            parts.append(f"no {kind} head by {at(last)} (the largest mass is {best['largest']:.2f}, of {_head(best)})")
    return " ".join([f"{'; '.join(parts)}.", *_which_first(first, onsets, criteria)])


def _which_first(first: Mapping[str, _Row], onsets: pd.DataFrame, criteria: StageCriteria) -> list[str]:
    if not first:
        return []
    early, *others = sorted(first, key=lambda kind: float(first[kind]["t50"]))
    if not others:
        (late,) = (kind for kind in HEAD_KINDS if kind != early)
        if onsets.loc[onsets["kind"] == late, "largest"].max() >= criteria.named:
            return []
        return [f"So {early} heads come before {late} heads, if any form."]
    (late,) = others
    if first[early]["t50_hi"] <= first[late]["t50_lo"]:
        return [f"So {early} heads come before {late} heads."]
    return [f"Which kind came first cannot be decided: the intervals of {early} and {late} heads overlap."]


def head_rows(onsets: pd.DataFrame, batch: str) -> list[list[object]]:
    """Return the report's cells on one batch: heads with a name, and the best one of each kind."""
    best = onsets.groupby("kind")["largest"].transform("max")
    shown = onsets[onsets["named"] | (onsets["largest"] == best)]
    order = shown["kind"].map(list(HEAD_KINDS).index)
    return [
        [
            *(batch, row["kind"], _head(row), f"{row['before']:.2f}", f"{row['largest']:.2f}", f"{row['last']:.2f}"),
            half_way(row) if row["onset"] else f"no onset: {no_onset(row)}",
        ]
        for row in shown.assign(order=order).sort_values(["order", "t50"], kind="stable").to_dict("records")
    ]


def _head(row: _Row) -> str:
    return head_label(int(row["layer"]), int(row["head"]))
