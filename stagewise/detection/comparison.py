"""Two runs compared: what came in both, how much later in the second; and what came in one alone."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from stagewise.detection.frames import InWords, typed
from stagewise.detection.replicates import replicates_of
from stagewise.detection.stages import Stages

EVENTS = {
    **{"event": "str", "kind": "str"},
    **dict.fromkeys(("step", "lo", "hi", "other", "other_lo", "other_hi"), "float64"),
    **dict.fromkeys(("later", "later_lo", "later_hi"), "float64"),
}
"""Columns of the frame of events of two runs, with their types."""


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison(InWords):
    """The stages of two runs, aligned. Steps are optimiser updates.

    Args:
        runs: the names of both.
        events: a row an event: the `event` in words and its `kind` ("boundary" or "onset"), its `step` in the first run
            with its 95 % interval (`lo`, `hi`) and in the second one (`other`, `other_lo`, `other_hi`); how many steps
            `later` it came in the second, and between which numbers, if both intervals hold (`later_lo`, `later_hi`).
            What one of the runs does not have is missing.
        roles: the head of each run that has each role, as `paired_roles` returns them.
    """

    runs: tuple[str, str]
    events: pd.DataFrame
    roles: pd.DataFrame

    def words(self) -> str:
        """Return what came in both and what in one alone, in sentences."""
        lines = [_event(row, self.runs) for row in self.events.to_dict("records")]
        return "\n".join(lines or ["neither run has a boundary or an onset"])

    @property
    def shared(self) -> pd.DataFrame:
        """The events of both runs."""
        return self.events[self.events["later"].notna()]


def compare_stages(first: Stages, second: Stages, roles: pd.DataFrame) -> Comparison:
    """Align the boundaries and onsets of two runs: by what they are, heads by their roles.

    Args:
        first: of the run that the other one is compared with.
        second: of that other run; the names of the runs must differ.
        roles: from `paired_roles` of both tables together.

    Raises:
        ValueError: both runs have one name.
    """
    findings = replicates_of([first, second], roles).findings
    pairs = (_pair(rows, first.run, second.run) for _, rows in findings.groupby("event", sort=False))
    events = typed(pairs, EVENTS)
    order = events["step"].fillna(events["other"]).argsort(kind="stable")
    return Comparison((first.run, second.run), events.iloc[order].reset_index(drop=True), roles)


def _pair(rows: pd.DataFrame, first: str, second: str) -> dict[str, Any]:
    of = {str(row["run"]): row for row in rows.to_dict("records")}
    record = {"event": rows["event"].iloc[0], "kind": rows["kind"].iloc[0]}
    if first in of:
        record |= {name: of[first][name] for name in ("step", "lo", "hi")}
    if second in of:
        record |= {name: of[second][end] for name, end in (("other", "step"), ("other_lo", "lo"), ("other_hi", "hi"))}
    return {**record, **dict(_later(record))}


def _later(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    if {"step", "other"} <= record.keys():
        yield "later", record["other"] - record["step"]
        yield "later_lo", record["other_lo"] - record["hi"]
        yield "later_hi", record["other_hi"] - record["lo"]


def _event(row: Mapping[Any, Any], runs: tuple[str, str]) -> str:
    if pd.isna(row["later"]):
        run, step = (runs[0], row["step"]) if pd.notna(row["step"]) else (runs[1], row["other"])
        return f"{row['event']}: in {run} alone, at step {step:.0f}"
    both = f"{row['event']}: at step {row['step']:.0f} in {runs[0]}, {row['other']:.0f} in {runs[1]}"
    return f"{both}, {later(row)}"


def later(row: Mapping[Any, Any]) -> str:
    """Say how much later an event came in the second run, or that its intervals do not tell.

    >>> later({"later": 30.0, "later_lo": 10.0, "later_hi": 50.0})
    '30 [10, 50] steps later'
    >>> later({"later": -3.0, "later_lo": -10.0, "later_hi": 5.0})
    'which is earlier cannot be told: -3 [-10, 5] steps'
    """
    lo, hi = row["later_lo"], row["later_hi"]
    if hi < 0:
        return f"{-row['later']:.0f} [{-hi:.0f}, {_end(-lo)}] steps earlier"
    if lo > 0:
        return f"{row['later']:.0f} [{lo:.0f}, {_end(hi)}] steps later"
    return f"which is earlier cannot be told: {row['later']:.0f} [{_end(lo)}, {_end(hi)}] steps"


def _end(steps: float) -> str:
    return f"{steps:.0f}" if math.isfinite(steps) else "..."
