"""When each head changed what it attends to."""

from typing import Any

import numpy as np
import pandas as pd
import scipy

from stagewise.event import DIFFUSE
from stagewise.findings._frames import Rows, by_role, typed
from stagewise.statistics import DEFAULT, StageCriteria
from stagewise.statistics._noise.differences import noise
from stagewise.table import Role

APART = 3.5
"""Deviations of a share's noise by which the thresholds of a name move apart: rows "head events" at 3 and at 4 miss
their goals, false ones and found ones."""

LEFT = 0.67
"""Part of the deviation of white noise that a running median over three checkpoints leaves."""

UNDECIDED = "cannot be told"
"""The label of a head between two names, or between a name and none."""

LABELS = {"step": "int64", "layer": "int64", "head": "int64", "label": "str", "share": "float64", "lead": "float64"}
"""Columns of the frame of labels, with their types."""

EVENTS = {
    **{"layer": "int64", "head": "int64", "before": "str", "after": "str"},
    **{"last_step_before": "int64", "first_step_after": "int64"},
}
"""Columns of the frame of events, with their types."""


def head_events(rows: Rows, criteria: StageCriteria = DEFAULT) -> pd.DataFrame:
    """Return each head's changes of top relation, from the shares of relations in its attention.

    A head takes a relation's name when its share reaches 0.5 (`enter`) and it attends to the relation at all
    (`_attends`), and loses it ("diffuse") below 0.4 (`leave`) or to another one that reaches 0.5 and leads by as much
    as lies between the two; what lasts less than two checkpoints (`dwell`) is passed over. From ten checkpoints on
    shares are running medians over three, and both thresholds move apart by three and a half deviations of the noise
    that is left in them, and so does the lead: between them a head keeps its name.

    Source: the labels, dwell times and migrations follow the analysis released with Yüksel et al. (2026),
    arXiv:2602.19143; leaving later than entering (hysteresis) is this library's.
    """
    if rows[Role.SHARE].empty:
        return typed([], EVENTS)
    events, attends = [], _attends(rows, criteria)
    for (layer, head), of_head in rows[Role.SHARE].groupby(["layer", "head"]):
        shares = of_head.pivot(index="step", columns="relation", values="value")
        shares = shares.dropna(axis="columns", how="all").dropna()
        if shares.empty:
            continue
        shares = _of_role(shares, attends.get((layer, head)))
        labels = _long_enough(_labels(shares, criteria), criteria.dwell)
        for i in np.flatnonzero(labels.to_numpy()[1:] != labels.to_numpy()[:-1]):
            values = (layer, head, *labels.iloc[i : i + 2], *labels.index[i : i + 2])
            events.append(dict(zip(EVENTS, values, strict=True)))
    return typed(events, EVENTS).sort_values("first_step_after", ignore_index=True)


def _of_role(shares: pd.DataFrame, attends: pd.DataFrame | None) -> pd.DataFrame:
    """Return shares [step, relation] with 0 for what the head does not attend to; all of them where that is unknown."""
    return shares if attends is None else shares.where(attends.reindex_like(shares) != 0.0, 0.0)


def _attends(of_roles: Rows, criteria: StageCriteria) -> dict[tuple[Any, ...], pd.DataFrame]:
    """Return whether each head attends to each relation, 1 or 0, by step and relation; nothing where that is unknown.
    It does where its attention along the relation is beyond that of uniform attention by 0.2 (`growth`), surely so, and
    is 0.3 (`named`), or has risen by 0.2 since the first checkpoint: a share of little is no role.
    """
    along, uniform = of_roles[Role.ATTENTION_ALONG], of_roles[Role.UNIFORM_ATTENTION]
    if along.empty:
        return {}
    even = None if uniform.empty else uniform.groupby("relation")["value"].mean()
    attends: dict[tuple[Any, ...], pd.DataFrame] = {}
    for head, rows in along.groupby(["layer", "head"]):
        values, lowest = (
            rows.pivot(index="step", columns="relation", values=name)
            for name in ("value", "lo" if "lo" in rows else "value")
        )
        values = pd.DataFrame(
            scipy.ndimage.median_filter(values, size=(3, 1), mode="nearest"), values.index, values.columns
        )
        chance = 0.0 if even is None else even.reindex(values.columns)
        large = (values >= criteria.named) | (values - values.iloc[0] >= criteria.growth)
        attends[head] = (large & (values - chance >= criteria.growth) & ~(lowest <= chance)).astype(float)
    return attends


def head_labels(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> pd.DataFrame:
    """Return each head's `label` at every checkpoint, the largest `share` of a relation, and its `lead` over the second
    one.

    A head has a relation's name where its share is surely half (`enter`) or more, and it attends to it (`_attends`);
    "diffuse" where all shares are surely less, and "cannot be told" otherwise. The error is the larger one of three and
    a half deviations of the share's noise between checkpoints, from ten of them on, and of the 95 % interval over
    sequences.
    """
    of_roles = by_role(table)
    if (share := of_roles[Role.SHARE]).empty:
        return typed([], LABELS)
    if not {"lo", "hi"} <= set(share):
        share = share.assign(lo=share["value"], hi=share["value"])
    frames, attends = [], _attends(of_roles, criteria)
    for (layer, head), rows in share.groupby(["layer", "head"]):
        values = rows.pivot(index="step", columns="relation", values="value")
        if values.notna().any(axis=None):
            values = values.dropna(axis="columns", how="all")
        half = (rows.assign(half=(rows["hi"] - rows["lo"]) / 2)).pivot(index="step", columns="relation", values="half")
        half = half[values.columns]
        values = _of_role(values, attends.get((layer, head)))
        known = values.dropna().to_numpy(float)
        margin = APART * noise(known.T) if len(known) >= criteria.fewest else np.zeros(values.shape[1])
        frames.append(
            _told(values, np.maximum(half.fillna(0.0).to_numpy(float), margin), criteria).assign(
                layer=int(str(layer)), head=int(str(head))
            )
        )
    return pd.concat(frames, ignore_index=True)[list(LABELS)].astype(LABELS)


def _told(shares: pd.DataFrame, error: np.ndarray, criteria: StageCriteria) -> pd.DataFrame:
    values = shares.to_numpy(float)
    order, rows = np.argsort(-values, axis=1), np.arange(len(values))
    top, second = order[:, 0], order[:, min(1, values.shape[1] - 1)]
    largest, of_top = values[rows, top], error[rows, top]
    alone = values.shape[1] == 1
    lead = largest - (0.0 if alone else values[rows, second])
    leads = lead > of_top + (0.0 if alone else error[rows, second])
    names = np.array([str(name) for name in shares.columns], dtype=object)[top]
    named = (largest - of_top >= criteria.enter) & leads
    labels = np.where(named, names, np.where(largest + of_top < criteria.enter, DIFFUSE, UNDECIDED))
    labels[np.isnan(values).any(axis=1)] = UNDECIDED
    return pd.DataFrame({"step": shares.index, "label": labels, "share": largest, "lead": lead})


def _labels(shares: pd.DataFrame, criteria: StageCriteria) -> pd.Series:
    current, labels = DIFFUSE, []
    known = len(shares) >= criteria.fewest
    margin = APART * LEFT * float(noise(shares.to_numpy(float).T).max()) if known else 0.0
    if known:
        smooth = scipy.ndimage.median_filter(shares.to_numpy(float), size=(3, 1), mode="nearest")
        shares = pd.DataFrame(smooth, shares.index, shares.columns)
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
    """Return labels without those that last too briefly; where none lasts, nothing is known to change."""
    length = labels.groupby((labels != labels.shift()).cumsum()).transform("size")
    return labels.where(length >= checkpoints).ffill().bfill().fillna(DIFFUSE)
