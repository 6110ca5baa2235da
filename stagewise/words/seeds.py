"""Every sentence about findings over seeds."""

from collections.abc import Callable, Sequence

import pandas as pd

from stagewise.token_axis import Time
from stagewise.words._grammar import more
from stagewise.words._onsets import LISTED, Row
from stagewise.words._times import at, interval, written

SURE = 0.05
"""The p-value below which one event is reported to come before another one."""


def events(frame: pd.DataFrame, runs: int, names: Sequence[str]) -> list[str]:
    """Say of each event that recurs in how many seeds it was found, and when; count the others."""
    recurring = frame[frame["recurs"]]
    lines = [_event(row, runs, names[row["event"]]) for row in recurring.head(LISTED).to_dict("records")]
    return [
        *(lines or [f"nothing recurs in half of the {runs} seeds"]),
        *more(len(recurring) - len(lines), "events"),
        *more(len(frame) - len(recurring), "in fewer than half of the seeds"),
    ]


def order(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    """Return the order of events, and in how many seeds; or that it cannot be decided."""
    lines = [_order(row, names) for row in frame.head(LISTED).to_dict("records")]
    return [*lines, *more(len(frame) - len(lines), "pairs of events")]


def _event(row: Row, runs: int, name: str) -> str:
    where = f"{name}: in {row['seeds']} of {runs} seeds, at"
    if not row["told"]:
        return f"{where} {between(row, at)}"
    when = at(interval(row["step"], row["lo"], row["hi"]))
    return f"{where} {when}; another seed: {written(row['new_lo'])} to {written(row['new_hi'])}"


def between(row: Row, write: Callable[[Time], str] = written) -> str:
    """Say the mean step of an event, and the range of its seeds, which is no interval."""
    range_of = f" ({written(row['least'])} to {written(row['most'])} in these seeds)" if row["seeds"] > 1 else ""
    return f"{write(row['step'])}{range_of}"


def _order(row: Row, names: Sequence[str]) -> str:
    before, after = names[row["before"]], names[row["after"]]
    number = f"{round(row['share'] * row['seeds'])} of {row['seeds']} seeds"
    if row["p_value"] < SURE:
        return f"{before} comes before {after}, in {number} (p = {row['p_value']:.2g})"
    return f"{before} or {after}, which comes first cannot be told: the former in {number}"
