"""Stages of a run whose task nobody wrote down: between the onsets that can be told apart in time."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from stagewise.detection.onsets import TIMES, find_onsets

LISTED = 8
"""Onsets of one stage that are written out."""


def onset_stages(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the stage table and the onsets: a stage starts with the onsets that no other one surely precedes.

    Onsets whose 95 % intervals overlap are one transition, at the median of their t50, with an interval that holds
    all of theirs.

    Raises:
        ValueError: the table has several runs, or none of the scores that onsets are looked for in.
    """
    if (runs := table["run"].nunique()) != 1:
        raise ValueError(f"find_stages takes one run at a time, the table has {runs}: select one by its `run` column")
    onsets = find_onsets(table)
    if onsets.empty:
        raise ValueError(
            "the table has neither KL to nested references (KLToReference) nor scores that onsets are looked for in: "
            f"measure AttentionTo, Copying, InContextLearning or Loss; it has {', '.join(table['probe'].unique())}"
        )
    first, last = int(table["step"].min()), int(table["step"].max())
    groups = _groups(onsets[onsets["onset"].astype(bool)])
    edges = [(first,) * 3, *(_edge(group, last) for group in groups), (last,) * 3]
    summaries = [_nothing_yet(onsets), *map(_summary, groups)]
    times = [dict.fromkeys(TIMES, float("nan")), *({name: group[name].median() for name in TIMES} for group in groups)]
    rows = [
        {
            "stage": number,
            **dict(zip(("start", "start_lo", "start_hi"), start, strict=True)),
            **dict(zip(("end", "end_lo", "end_hi"), end, strict=True)),
            **time,
            "summary": summary,
        }
        for number, (start, end, time, summary) in enumerate(
            zip(edges[:-1], edges[1:], times, summaries, strict=True), start=1
        )
    ]
    return pd.DataFrame(rows).round(dict.fromkeys(TIMES, 1)), onsets


def _groups(found: pd.DataFrame) -> list[pd.DataFrame]:
    """Split onsets, in their order, where all that came before is surely over."""
    found = found.sort_values("t50", kind="stable")
    known = found["t50_hi"].cummax().shift(fill_value=np.inf)
    number = (found["t50_lo"] >= known).cumsum()
    return [group for _, group in found.groupby(number)]


def _edge(group: pd.DataFrame, last: int) -> tuple[int, int, int]:
    return round(group["t50"].median()), int(group["t50_lo"].min()), int(min(group["t50_hi"].max(), last))


def _summary(group: pd.DataFrame) -> str:
    said = [_with_time(row, len(group) > 1) for row in group.head(LISTED).to_dict("records")]
    more = len(group) - len(said)
    return "; ".join([*said, f"and {more} more"] if more else said)


def _with_time(row: Mapping[Hashable, Any], needed: bool) -> str:
    if not needed:
        return str(row["words"])
    t50, lo, hi = (row[name] for name in ("t50", "t50_lo", "t50_hi"))
    return f"{row['words']}, step {t50:.0f} [{lo:.0f}, {'...' if np.isinf(hi) else f'{hi:.0f}'}]"


def _nothing_yet(onsets: pd.DataFrame) -> str:
    if onsets["onset"].any():
        return "before the first onset"
    return f"no onset in {len(onsets)} {'score' if len(onsets) == 1 else 'scores'}"
