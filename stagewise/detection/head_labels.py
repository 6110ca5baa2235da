"""When each head changed what it attends to."""

import numpy as np
import pandas as pd

from stagewise.table import head_label, select

ENTER, LEAVE, DWELL = 0.5, 0.4, 2
"""A head takes a relation's name at this share, keeps it down to that one, for at least so many checkpoints."""

COLUMNS = ["layer", "head", "before", "after", "last_step_before", "first_step_after"]


def head_events(table: pd.DataFrame) -> pd.DataFrame:
    """Return each head's changes of top relation, from the `share` rows of `HeadSpecialisation`.

    A head takes a relation's name when its share reaches 0.5, and loses it ("diffuse") below 0.4 or to another one
    that reaches 0.5; what lasts less than two checkpoints is passed over. A table without such rows has no events.

    Source: the labels, dwell times and migrations follow the analysis released with Yüksel et al. (2026),
    arXiv:2602.19143; leaving later than entering (hysteresis) is this library's.
    """
    if "HeadSpecialisation" not in set(table["probe"]):
        return pd.DataFrame(columns=COLUMNS)
    share = select(table, "HeadSpecialisation", "share")
    found = []
    for (layer, head), rows in share.groupby(["layer", "head"]):
        wide = rows.pivot(index="step", columns="relation", values="value")
        labels = _long_enough(_labels(wide))
        for i in np.flatnonzero(labels.to_numpy()[1:] != labels.to_numpy()[:-1]):
            before, after = labels.iloc[i : i + 2]
            found.append((layer, head, before, after, *labels.index[i : i + 2]))
    return pd.DataFrame(found, columns=COLUMNS).sort_values("first_step_after", ignore_index=True)


def in_words(events: pd.DataFrame) -> list[str]:
    """Say what the heads did, heads that did the same together."""
    said = []
    for (before, after), rows in events.groupby(["before", "after"], sort=False):
        heads = ", ".join(map(head_label, rows["layer"], rows["head"]))
        take, leave = ("take", "leave") if len(rows) > 1 else ("takes", "leaves")
        if before == "diffuse":
            said.append(f"{heads} {take} {after}")
        else:
            said.append(f"{heads} {leave} {before}" + ("" if after == "diffuse" else f" for {after}"))
    return said


def _labels(shares: pd.DataFrame) -> pd.Series:
    current, labels = "diffuse", []
    for share in shares.to_dict("records"):
        top = max(share, key=lambda relation: share[relation])
        if share[top] >= ENTER:
            current = str(top)
        elif current != "diffuse" and share[current] < LEAVE:
            current = "diffuse"
        labels.append(current)
    return pd.Series(labels, index=shares.index)


def _long_enough(labels: pd.Series) -> pd.Series:
    length = labels.groupby((labels != labels.shift()).cumsum()).transform("size")
    return labels.where(length >= DWELL).ffill().bfill()
