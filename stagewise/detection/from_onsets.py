"""Stages of a run that has no reference solutions: between the onsets whose intervals do not overlap."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from stagewise.detection import words
from stagewise.detection.criteria import DEFAULT, StageCriteria
from stagewise.detection.onsets import TIMES
from stagewise.detection.verdicts import OnsetVerdict

NO_STAGES = "no stages can be found: there are no scores over at least four checkpoints"
FEW = (
    "no stages can be found: with {checkpoints} checkpoint{s} no onset can be distinguished from noise, which takes "
    "{fewest} or more; save more of them (`trainer_callbacks.save_on`)"
)

Edge = tuple[int, int, int]
"""The step of a boundary, and the two that hold it (95 %)."""


def onset_stages(onsets: pd.DataFrame, first: int, last: int) -> list[dict[str, Any]]:
    """Return the rows of the stage table: a stage starts where an onset's interval begins after all earlier ones end.

    Onsets whose 95 % intervals overlap are one transition, at the median of their t50, with an interval that holds
    all of theirs.

    Args:
        onsets: from `find_onsets`.
        first: the first step.
        last: the last step.
    """
    groups = _groups(onsets[onsets["onset"]])
    edges: Sequence[Edge] = [(first,) * 3, *(_edge(group, last) for group in groups), (last,) * 3]
    summaries = [words.before_onsets(onsets), *map(words.onset_stage, groups)]
    times = [
        dict.fromkeys(TIMES, float("nan")),
        *({name: round(group[name].median(), 1) for name in TIMES} for group in groups),
    ]
    return [
        stage_row(number, start, end, time, summary)
        for number, (start, end, time, summary) in enumerate(
            zip(edges[:-1], edges[1:], times, summaries, strict=True), start=1
        )
    ]


def too_few(onsets: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> str:
    """Say that there are too few checkpoints to find any onset, where that is so; else nothing."""
    if onsets.empty or not (onsets["verdict"] == OnsetVerdict.FEW_CHECKPOINTS).all():
        return ""
    most = onsets["checkpoints"].max()
    return FEW.format(checkpoints=most, s="" if most == 1 else "s", fewest=criteria.fewest)


def stage_row(number: int, start: Edge, end: Edge, times: dict[str, float], summary: str) -> dict[str, Any]:
    """Return a row of the stage table."""
    return {
        "stage": number,
        **dict(zip(("start", "start_lo", "start_hi"), start, strict=True)),
        **dict(zip(("end", "end_lo", "end_hi"), end, strict=True)),
        **times,
        "summary": summary,
    }


def _groups(onsets: pd.DataFrame) -> list[pd.DataFrame]:
    """Split onsets where no interval lies: each group's, as one, begins after all earlier ones end."""
    onsets = onsets.sort_values(["t50_lo", "t50"], kind="stable")
    known = onsets["t50_hi"].cummax().shift(fill_value=float("inf"))
    number = (onsets["t50_lo"] >= known).cumsum()
    return [group.sort_values("t50", kind="stable") for _, group in onsets.groupby(number)]


def _edge(group: pd.DataFrame, last: int) -> Edge:
    lo, hi = math.floor(group["t50_lo"].min()), math.ceil(min(group["t50_hi"].max(), last))
    return round(group["t50"].median()), lo, hi
