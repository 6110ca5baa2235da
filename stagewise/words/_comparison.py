"""Every sentence about two runs compared."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from stagewise.event import Event
from stagewise.table import Quantities, head_label
from stagewise.words import _seeds as seeds
from stagewise.words._grammar import more
from stagewise.words._onsets import Row, head
from stagewise.words._times import at, unit, written

SURE = 0.5
"""Distance up to which a pair of heads is sure: half of that between heads that are no pair."""

LISTED = 10
"""Events that are put into words; all are in the frame."""


def names(catalogue: Sequence[Event], quantities: Quantities, roles: pd.DataFrame, second: str) -> list[str]:
    """Name the events of two runs; a head, which is a role, also by what it is called in the second run."""
    rows = roles.to_dict("records")
    here = {(row["layer"], row["role"]): row for row in rows if row["run"] == second}
    shared = {(row["layer"], row["role"]) for row in rows if row["run"] != second}

    def name_head(labels: Row) -> str:
        role = (int(labels["layer"]), int(labels["head"]))
        if role not in here:
            return head(labels)
        other, sure = head_label(role[0], here[role]["head"]), not here[role]["distance"] > SURE
        if role not in shared:
            return f"{other} of {second}"
        if sure and other == head(labels):
            return other
        return f"{head(labels)} (in {second} {'' if sure else 'perhaps '}{other})"

    return seeds.names(catalogue, quantities, name_head)


def comparison(
    events: pd.DataFrame, names: Sequence[str], runs: tuple[str, str], unknown: Mapping[str, str]
) -> list[str]:
    """Name events: unknown runs, those of both runs, boundaries, then the largest differences; count the rest."""
    rows = sorted(events.to_dict("records"), key=_rank)
    lines = [_event(row, names[row["event"]], runs, unknown) for row in rows[:LISTED]]
    neither = [f"no boundary and no onset in {run}" for run in runs if run not in unknown]
    nothing = neither if unknown else ["neither run has a boundary or an onset"]
    return [*(f"in {run} {why}" for run, why in unknown.items()), *(lines or nothing), *more(len(rows) - len(lines))]


def _rank(row: Mapping[Any, Any]) -> tuple[int, float]:
    """Return an event's place in words: boundaries, what is surely apart, what may not be, what one run alone has."""
    if pd.isna(row["later"]):
        return 3, -row["step"] if pd.notna(row["step"]) else -row["other"]
    if row["kind"] == "boundary":
        return 0, row["step"]
    apart = abs(math.log1p(row["other"]) - math.log1p(row["step"]))
    return (1 if row["later_lo"] > 0 or row["later_hi"] < 0 else 2), -apart


def _event(row: Row, name: str, runs: tuple[str, str], unknown: Mapping[str, str]) -> str:
    without = {run: f"not known in {run}" if run in unknown else f"no such {row['kind']} in {run}" for run in runs}
    if pd.isna(row["other"]):
        return f"{name}: at {at(row['step'])} in {runs[0]}, {without[runs[1]]}"
    if pd.isna(row["step"]):
        return f"{name}: at {at(row['other'])} in {runs[1]}, {without[runs[0]]}"
    both = f"{name}: at {at(row['step'])} in {runs[0]}, {written(row['other'])} in {runs[1]}"
    return f"{both}, {later(row)}"


def later(row: Mapping[Any, Any]) -> str:
    """Say how much later an event came in the second run, or that its intervals do not tell."""
    lo, hi = row["later_lo"], row["later_hi"]
    if hi < 0:
        return f"{written(-row['later'])} [{written(-hi)}, {written(-lo)}] {unit()} earlier"
    if lo > 0:
        return f"{written(row['later'])} [{written(lo)}, {written(hi)}] {unit()} later"
    return f"which is earlier cannot be told: {written(row['later'])} [{written(lo)}, {written(hi)}] {unit()}"
