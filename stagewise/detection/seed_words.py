"""Findings over seeds in words: the part of `words` on replicates."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from stagewise.detection.words import LISTED, Row, curve_label

SURE = 0.05
"""The p-value below which one event is said to come before another one."""


def curve(row: Row, labels: Mapping[str, Any]) -> str:
    """Name the curve of an onset, by its role where it is a head's.

    >>> curve({"probe": "AttentionTo", "quantity": "along"}, {"layer": 1, "head": 2, "relation": "induction"})
    'L1H2, relation induction: AttentionTo along'
    """
    of = f"{row['probe']} {row['quantity']}"
    return f"{label}: {of}" if (label := curve_label(labels)) else of


def onset(curve_name: str, number: int, *, up: bool) -> str:
    """Name an onset: the first rise of a curve has no number.

    >>> onset("Loss cross_entropy", 2, up=False)
    'Loss cross_entropy falls (number 2)'
    """
    return f"{curve_name} {'rises' if up else 'falls'}" + (f" (number {number})" if number > 1 else "")


def events(frame: pd.DataFrame, runs: int) -> list[str]:
    """Say of each event that recurs in how many seeds it was found, and when; count the others."""
    recurring = frame[frame["recurs"]]
    lines = [_event(row, runs) for row in recurring.head(LISTED).to_dict("records")]
    return [
        *(lines or [f"nothing recurs in half of the {runs} seeds"]),
        *_more(len(recurring) - len(lines), "events"),
        *_more(len(frame) - len(recurring), "in fewer than half of the seeds"),
    ]


def order(frame: pd.DataFrame) -> list[str]:
    """Say what came before what, and in how many seeds; where it cannot be decided, that."""
    lines = [_order(row) for row in frame.head(LISTED).to_dict("records")]
    return [*lines, *_more(len(frame) - len(lines), "pairs of events")]


def _event(row: Row, runs: int) -> str:
    where = f"{row['event']}: in {row['seeds']} of {runs} seeds, at step"
    if not row["told"]:
        return f"{where} {between(row)}"
    interval = f"{row['step']:.0f} [{row['lo']:.0f}, {row['hi']:.0f}]"
    return f"{where} {interval}; another seed: {row['new_lo']:.0f} to {row['new_hi']:.0f}"


def between(row: Row) -> str:
    """Say the mean step of an event, and the range of its seeds, which is no interval.

    >>> between({"step": 67.2, "least": 60.0, "most": 75.0, "seeds": 3})
    '67 (60 to 75 in these seeds)'
    """
    range_of = f" ({row['least']:.0f} to {row['most']:.0f} in these seeds)" if row["seeds"] > 1 else ""
    return f"{row['step']:.0f}{range_of}"


def _order(row: Row) -> str:
    number = f"{round(row['share'] * row['seeds'])} of {row['seeds']} seeds"
    if row["p_value"] < SURE:
        return f"{row['before']} comes before {row['after']}, in {number} (p = {row['p_value']:.2g})"
    return f"{row['before']} or {row['after']}, which comes first cannot be told: the former in {number}"


def _more(number: int, what: str) -> list[str]:
    return [f"and {number} more {what}"] if number > 0 else []
