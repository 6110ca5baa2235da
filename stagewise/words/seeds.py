"""Findings over seeds in words: the part of `words` on replicates."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import pandas as pd

from stagewise.table import Quantities, Quantity
from stagewise.words.stages import LISTED, Row, change

SURE = 0.05
"""The p-value below which one event is reported to come before another one."""


class Change(NamedTuple):
    """What onsets of several runs are aligned by: a curve, with a head's role for its index, and a direction."""

    probe: str
    quantity: str
    labels: tuple[tuple[str, Any], ...]
    up: bool


def changes(found: Iterable[Change], quantities: Quantities) -> dict[Change, str]:
    """Name changes, each another way: where two would have one name, by their probes and quantities too."""
    names = {one: change(dict(one.labels), _quantity(one, quantities), up=one.up) for one in found}
    times = Counter(names.values())
    return {one: name if times[name] == 1 else f"{name} ({one.probe} {one.quantity})" for one, name in names.items()}


def _quantity(one: Change, quantities: Quantities) -> Quantity:
    return quantities.get(one.probe, {}).get(one.quantity) or Quantity(f"{one.probe} {one.quantity}")


def numbered(name: str, number: int) -> str:
    """Name one of several changes of a curve in one direction: the first has no number.

    >>> numbered("the loss falls", 2)
    'the loss falls (number 2)'
    """
    return name + (f" (number {number})" if number > 1 else "")


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
