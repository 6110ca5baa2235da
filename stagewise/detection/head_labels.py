"""When each head changed what it attends to."""

import numpy as np
import pandas as pd

from stagewise.detection.criteria import DEFAULT, StageCriteria
from stagewise.detection.frames import typed
from stagewise.detection.noise import noise
from stagewise.table import select

APART = 3.0
"""Deviations of a share's noise by which the thresholds of a name move apart."""

DIFFUSE = "diffuse"
"""The name of a head that has no relation's."""

EVENTS = {
    **{"layer": "int64", "head": "int64", "before": "str", "after": "str"},
    **{"last_step_before": "int64", "first_step_after": "int64"},
}
"""Columns of the frame of events, with their types."""


def head_events(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> pd.DataFrame:
    """Return each head's changes of top relation, from the `share` rows of `HeadSpecialisation`.

    A head takes a relation's name when its share reaches 0.5 (`enter`), and loses it ("diffuse") below 0.4 (`leave`)
    or to another one that reaches 0.5 and leads by as much as lies between the two; what lasts less than two
    checkpoints (`dwell`) is passed over. With ten checkpoints or more both thresholds move apart by three deviations of
    the share's noise, and so does the lead: between them it cannot be told whether the head changed, and it keeps its
    name. A table without such rows has no events.

    Source: the labels, dwell times and migrations follow the analysis released with Yüksel et al. (2026),
    arXiv:2602.19143; leaving later than entering (hysteresis) is this library's.
    """
    if "HeadSpecialisation" not in set(table["probe"].unique()):
        return typed([], EVENTS)
    share = select(table, "HeadSpecialisation", "share")
    events = []
    for (layer, head), rows in share.groupby(["layer", "head"]):
        labels = _labels(rows.pivot(index="step", columns="relation", values="value"), criteria)
        labels = _long_enough(labels, criteria.dwell)
        for i in np.flatnonzero(labels.to_numpy()[1:] != labels.to_numpy()[:-1]):
            values = (layer, head, *labels.iloc[i : i + 2], *labels.index[i : i + 2])
            events.append(dict(zip(EVENTS, values, strict=True)))
    return typed(events, EVENTS).sort_values("first_step_after", ignore_index=True)


def _labels(shares: pd.DataFrame, criteria: StageCriteria) -> pd.Series:
    current, labels = DIFFUSE, []
    known = len(shares) >= criteria.fewest
    margin = APART * float(noise(shares.to_numpy(float).T).max()) if known else 0.0
    enter, leave = min(criteria.enter + margin, (1 + criteria.enter) / 2), max(criteria.leave - margin, 0.0)
    lead = criteria.enter - criteria.leave + margin
    for share in shares.to_dict("records"):
        top = max(share, key=lambda relation: share[relation])
        if share[top] >= enter and (current == DIFFUSE or share[top] - share[current] >= lead):
            current = str(top)
        elif current != DIFFUSE and share[current] < leave:
            current = DIFFUSE
        labels.append(current)
    return pd.Series(labels, index=shares.index)


def _long_enough(labels: pd.Series, checkpoints: int) -> pd.Series:
    length = labels.groupby((labels != labels.shift()).cumsum()).transform("size")
    return labels.where(length >= checkpoints).ffill().bfill()
