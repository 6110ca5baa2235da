"""Two runs compared: what came in both, how much later in the second; and what came in one alone."""

import dataclasses
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from stagewise.findings.delays import end_in_words
from stagewise.findings.frames import InWords, typed
from stagewise.findings.replicates import replicates_of
from stagewise.findings.stages import Stages
from stagewise.table import Quantities, head_label

EVENTS = {
    **{"event": "str", "kind": "str"},
    **dict.fromkeys(("step", "lo", "hi", "other", "other_lo", "other_hi"), "float64"),
    **dict.fromkeys(("later", "later_lo", "later_hi"), "float64"),
}
"""Columns of the frame of events of two runs, with their types."""

SURE = 0.5
"""Distance up to which a pair of heads is sure: half of that between heads that are no pair."""

LISTED = 10
"""Events that are put into words; all are in the frame."""


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison(InWords):
    """The stages of two runs, aligned. Steps are optimiser updates.

    Args:
        runs: the names of both.
        events: a row an event: the `event` in words and its `kind` ("boundary" or "onset"), its `step` in the first run
            with its 95 % interval (`lo`, `hi`) and in the second one (`other`, `other_lo`, `other_hi`); how many steps
            `later` it came in the second, and between which numbers, if both intervals hold (`later_lo`, `later_hi`).
            What one of the runs does not have is missing. A head goes by its name in the first run, and where it has
            another one in the second, or the pair is not sure, by that too.
        roles: the head of each run that has each role, as `paired_roles` returns them.
        unknown: why no stages can be found in a run, by its name, where it has too few checkpoints: what it does not
            have may have come all the same.
    """

    runs: tuple[str, str]
    events: pd.DataFrame
    roles: pd.DataFrame
    unknown: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def words(self) -> str:
        """Return what came, in sentences: in both runs first, boundaries and then what differs most; count the rest.

        Before them, in which run no stages can be found.
        """
        rows = sorted(self.events.to_dict("records"), key=_rank)
        lines = [_event(row, self.runs, self.unknown) for row in rows[:LISTED]]
        more = [f"and {len(rows) - len(lines)} more"] if len(rows) > len(lines) else []
        unknown = [f"in {run} {why}" for run, why in self.unknown.items()]
        return "\n".join([*unknown, *([*lines, *more] or self._without())])

    def _without(self) -> list[str]:
        """Say which runs, of those in which stages can be found, have no events."""
        if not self.unknown:
            return ["neither run has a boundary or an onset"]
        return [f"no boundary and no onset in {run}" for run in self.runs if run not in self.unknown]

    @property
    def shared(self) -> pd.DataFrame:
        """The events of both runs."""
        return self.events[self.events["later"].notna()]


def compare_stages(
    first: Stages, second: Stages, roles: pd.DataFrame, quantities: Quantities | None = None
) -> Comparison:
    """Align the boundaries and onsets of two runs: by what they are, heads by their roles.

    Where a curve has several onsets of one direction, those nearest to each other in log(1 + step) correspond.

    Args:
        first: of the run that the other one is compared with.
        second: of that other run; the names of the runs must differ.
        roles: from `paired_roles` of both tables together.
        quantities: of both tables, which say what begins; what is not among them goes by its probe and quantity.

    Raises:
        ValueError: both runs have one name.
    """
    findings = replicates_of([first, second], roles, quantities).findings
    pairs = (pair for _, rows in findings.groupby("unnumbered", sort=False) for pair in _pairs(rows, first.run))
    events = typed(map(_event_of, pairs), EVENTS)
    events["event"] = [_of_both(event, roles, second.run) for event in events["event"]]
    order = events["step"].fillna(events["other"]).argsort(kind="stable")
    unknown = {one.run: one.unknown for one in (first, second) if one.unknown}
    return Comparison((first.run, second.run), events.iloc[order].reset_index(drop=True), roles, unknown)


def _of_both(event: str, roles: pd.DataFrame, second: str) -> str:
    """Name the heads of an event, which are roles, by what they are called in the second run too."""
    rows = roles.to_dict("records")
    here = {(row["layer"], row["role"]): row for row in rows if row["run"] == second}
    shared = {(row["layer"], row["role"]) for row in rows if row["run"] != second}

    def named(match: re.Match[str]) -> str:
        role = (int(match[1]), int(match[2]))
        if role not in here:
            return match[0]
        other, sure = head_label(role[0], here[role]["head"]), not here[role]["distance"] > SURE
        if role not in shared:
            return f"{other} of {second}"
        if sure:
            return match[0] if other == match[0] else f"{match[0]} (in {second} {other})"
        return f"{match[0]} (in {second} perhaps {other})"

    return re.sub(r"\bL(\d+)H(\d+)\b", named, event)


Finding = dict[Any, Any]


def _pairs(rows: pd.DataFrame, first: str) -> Iterator[tuple[Finding | None, Finding | None]]:
    """Yield the findings of one kind that correspond, and those of one run alone."""
    of_first, of_second = (part.to_dict("records") for part in (rows[rows["run"] == first], rows[rows["run"] != first]))
    times = [np.log1p([row["step"] for row in part]) for part in (of_first, of_second)]
    places = linear_sum_assignment(np.abs(np.subtract.outer(*times)))
    pairs = dict(zip(*(place.tolist() for place in places), strict=True))
    for i, row in enumerate(of_first):
        yield row, of_second[pairs[i]] if i in pairs else None
    for j, row in enumerate(of_second):
        if j not in pairs.values():
            yield None, row


def _event_of(pair: tuple[Finding | None, Finding | None]) -> dict[str, Any]:
    first, second = pair
    named = first or second or {}
    record = {name: named[name] for name in ("event", "kind")}
    if first is not None:
        record |= {name: first[name] for name in ("step", "lo", "hi")}
    if second is not None:
        record |= {"other": second["step"], "other_lo": second["lo"], "other_hi": second["hi"]}
    return {**record, **dict(_later(record))}


def _later(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    if {"step", "other"} <= record.keys():
        yield "later", record["other"] - record["step"]
        yield "later_lo", record["other_lo"] - record["hi"]
        yield "later_hi", record["other_hi"] - record["lo"]


def _rank(row: Mapping[Any, Any]) -> tuple[int, float]:
    """Return the place of an event in words: boundaries, what is surely apart, what may not be, what one run alone has.

    The farthest apart in log steps comes first; of what one run alone has, the latest.
    """
    if pd.isna(row["later"]):
        return 3, -row["step"] if pd.notna(row["step"]) else -row["other"]
    if row["kind"] == "boundary":
        return 0, row["step"]
    apart = abs(math.log1p(row["other"]) - math.log1p(row["step"]))
    return (1 if row["later_lo"] > 0 or row["later_hi"] < 0 else 2), -apart


def _event(row: Mapping[Any, Any], runs: tuple[str, str], unknown: Mapping[str, str]) -> str:
    without = {run: f"not known in {run}" if run in unknown else f"no such {row['kind']} in {run}" for run in runs}
    if pd.isna(row["other"]):
        return f"{row['event']}: at step {row['step']:.0f} in {runs[0]}, {without[runs[1]]}"
    if pd.isna(row["step"]):
        return f"{row['event']}: at step {row['other']:.0f} in {runs[1]}, {without[runs[0]]}"
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
        return f"{-row['later']:.0f} [{-hi:.0f}, {end_in_words(-lo)}] steps earlier"
    if lo > 0:
        return f"{row['later']:.0f} [{lo:.0f}, {end_in_words(hi)}] steps later"
    return f"which is earlier cannot be told: {row['later']:z.0f} [{end_in_words(lo)}, {end_in_words(hi)}] steps"
