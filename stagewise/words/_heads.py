"""Findings about heads in words."""

from collections.abc import Mapping

import pandas as pd

from stagewise.event import HEAD_KINDS
from stagewise.statistics import DEFAULT, StageCriteria
from stagewise.words._onsets import Row, half_way, head, no_onset
from stagewise.words._times import at, unit


def heads(onsets: pd.DataFrame, last: int, criteria: StageCriteria = DEFAULT) -> str:
    """Say which heads of each kind there are, since when, and which kind surely came first."""
    parts, first = [], {}
    for kind in HEAD_KINDS:
        of_kind = onsets[onsets["kind"] == kind]
        named = of_kind[of_kind["named"]].sort_values("t50", kind="stable").to_dict("records")
        if named:
            first[kind] = named[0]
            since = ", ".join(f"{head(row)} ({half_way(row)})" for row in named)
            parts.append(f"{kind} heads, and the {unit()} at which each had risen half-way: {since}")
        else:
            *_, best = of_kind.sort_values("largest").to_dict("records")
            parts.append(f"no {kind} head by {at(last)} (the largest mass is {best['largest']:.2f}, of {head(best)})")
    return " ".join([f"{'; '.join(parts)}.", *_which_first(first, onsets, criteria)])


def _which_first(first: Mapping[str, Row], onsets: pd.DataFrame, criteria: StageCriteria) -> list[str]:
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
            *(batch, row["kind"], head(row), f"{row['before']:.2f}", f"{row['largest']:.2f}", f"{row['last']:.2f}"),
            half_way(row) if row["onset"] else f"no onset: {no_onset(row)}",
        ]
        for row in shown.assign(order=order).sort_values(["order", "t50"], kind="stable").to_dict("records")
    ]
