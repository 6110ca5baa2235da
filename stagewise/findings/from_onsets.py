"""Stages of a run that has no reference solutions: between the periods in which scores have onsets."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from stagewise.findings.onsets import TIMES
from stagewise.findings.periods import periods
from stagewise.statistics import DEFAULT, OnsetVerdict, StageCriteria

MOVED = tuple(getattr(OnsetVerdict, name) for name in ("STEADY", "GRADUAL", "COMMON", "LATE", "EARLY", "WANDERS"))
"""Verdicts on curves that moved by enough, of which it is not known when."""

Edge = tuple[int, int, int]
"""The step of a boundary, and the two that hold it (95 %)."""


def onset_stages(
    onsets: pd.DataFrame, first: int, last: int, criteria: StageCriteria = DEFAULT
) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """Return the rows of the stage table, and the onsets with the stage that each starts, as `starts_stage`.

    A stage starts with each period of change (`periods`).

    It starts at the step at which half of the period's onsets are half-way: the median of their t50, between the
    medians of the lower and of the upper ends of their intervals. That interval assumes errors that all onsets share,
    and is wider than needed where they do not. Where they follow one another, it also holds what the medians would be
    if the curves of the same scores that moved, but have no onset, had all come first, or last.

    Args:
        onsets: from `find_onsets`.
        first: the first step.
        last: the last step.
        criteria: the criteria of `find_stages`.
    """
    times_of = periods(onsets[onsets["onset"]], first, last, criteria.consecutive)
    groups = [pd.concat(times).sort_values("t50", kind="stable") for times in times_of]
    unknown = [_unknown(onsets, group) if len(times) > 1 else 0 for group, times in zip(groups, times_of, strict=True)]
    starts = [_edge(group, last, number) for group, number in zip(groups, unknown, strict=True)]
    edges: Sequence[Edge] = [(first,) * 3, *starts, (last,) * 3]
    spread = [False, *(len(times) > 1 for times in times_of)]
    times = [
        dict.fromkeys(TIMES, float("nan")),
        *({name: round(group[name].median(), 1) for name in TIMES} for group in groups),
    ]
    rows = [
        stage_row(number, start, end, time, spread=over)
        for number, (start, end, time, over) in enumerate(
            zip(edges[:-1], edges[1:], times, spread, strict=True), start=1
        )
    ]
    stage_of = {label: number for number, group in enumerate(groups, start=2) for label in group.index}
    started = pd.Series([stage_of.get(label, pd.NA) for label in onsets.index], onsets.index, "Int64")
    return rows, onsets.assign(starts_stage=started)


def stage_row(number: int, start: Edge, end: Edge, times: dict[str, float], **what: Any) -> dict[str, Any]:
    """Return a row of the stage table, with what it says of the stage besides its times."""
    return {
        "stage": number,
        **dict(zip(("start", "start_lo", "start_hi"), start, strict=True)),
        **dict(zip(("end", "end_lo", "end_hi"), end, strict=True)),
        **times,
        **{"reference": "", "spread": False, **what},
    }


def _unknown(onsets: pd.DataFrame, group: pd.DataFrame) -> int:
    """Return how many curves of the scores that some onsets are of moved, at a time that is not known."""
    score = ["probe", "quantity", "relation"]
    others = onsets.loc[~onsets["onset"] & onsets["verdict"].isin(MOVED), score]
    return len(others.merge(group[score].drop_duplicates()))


def _edge(group: pd.DataFrame, last: int, unknown: int) -> Edge:
    shift = min(unknown / (2 * max(len(group) - 1, 1)), 0.5)
    lo, hi = (group[name].clip(upper=last) for name in ("t50_lo", "t50_hi"))
    start, stop = float(lo.quantile(0.5 - shift)), float(hi.quantile(0.5 + shift))
    return round(group["t50"].median()), math.floor(start), math.ceil(stop)
