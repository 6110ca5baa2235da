"""Onsets in a table of scores: which head began what, when, against the null that nothing ever speeds up."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control

from stagewise.detection.rise_times import rise_times
from stagewise.detection.rises import FEWEST, Rise, rise
from stagewise.table import head_label, select

FALSE_DISCOVERIES = 0.05
"""Of the onsets that are found in a table, this part may be false; of a table without any, one in twenty shows one."""

SCORES: dict[tuple[str, str], tuple[int, str]] = {
    ("AttentionTo", "along"): (1, "attention"),
    ("AttentionTo", "mass"): (1, "attention"),
    ("AttentionProgress", "cosine"): (1, "attention"),
    ("OVCopying", "copying"): (1, "copies, by its weights"),
    ("QKOffset", "share"): (1, "looks back, by its weights"),
    ("Copying", "accuracy"): (1, "copying begins, accuracy"),
    ("Copying", "gain"): (1, "copying begins, gain"),
    ("Accuracy", "accuracy"): (1, "accuracy rises"),
    ("InContextLearning", "score"): (-1, "the in-context learning score falls"),
    ("Loss", "cross_entropy"): (-1, "the loss falls"),
    ("Loss", "squared_error"): (-1, "the loss falls"),
}
"""What is followed: whether up or down is progress, and what an onset is called. A relation is followed in the first
of these that has it: `mass` reads the scored queries alone, and a previous-token head works before them."""

HEADS = {
    "previous token": ("a previous-token head", "the previous token"),
    "duplicate token": ("a duplicate-token head", "the same token earlier"),
    "induction": ("an induction head", "what followed the token before"),
    "first token": ("a first-token head", "the first token"),
    "self": ("a self-attending head", "its own position"),
}
"""What a head with most of its attention on a relation is called, and what it attends to otherwise."""

MOST = 0.5
"""A head has a relation's name when at least this part of its attention is there."""

BACK = 0.5
"""A rise that loses at least this part of itself by the end was for a while only."""

SHOWN = 5
"""Scores without an onset whose reason is written out."""

KEYS = ["probe", "quantity", "relation", "layer", "head"]
TIMES = ["t10", "t50", "t90"]
COLUMNS = [
    *(*KEYS, "onset", "transient", "before", "after", "last"),
    *(f"{name}{end}" for name in TIMES for end in ("", "_lo", "_hi")),
    *("p_value", "words", "reason"),
]


def find_onsets(table: pd.DataFrame) -> pd.DataFrame:
    """Decide for every score of a table whether it has an onset, and when.

    An onset is the largest rise of a curve (or fall, of a loss) if it is at least 0.1 and five times the noise, has
    half of its way within a threefold of steps, stands out of what the curve does otherwise, and if the curve speeds
    up: `acceleration` rejects every curve of diminishing returns at a false discovery rate of 5 % over all curves
    of the table (Benjamini and Hochberg). A curve has one onset at most.

    Args:
        table: of one run, from `measure`; the probes of `SCORES` are followed.

    Returns a row a curve, the first onset first: its `probe`, `quantity`, `relation`, `layer`, `head`; whether it has
    an `onset`, and a `transient` one, half of which was lost again by the end; the levels `before`, `after` and at the
    `last` checkpoint; `t10`, `t50`, `t90`, steps at which 10, 50 and 90 % of the way were made, each with a 95 %
    interval between two checkpoints (`t50_lo`, `t50_hi`; infinite where no checkpoint shows the end of the rise); the
    `p_value`; the onset in `words`, or the `reason` against one. Of a curve without onset the times are missing.
    """
    curves = [rows for key in SCORES for rows in _curves(table, *key)]
    found = [_measured(rows) for rows in curves]
    finite = [i for i, one in enumerate(found) if isinstance(one, Rise)]
    adjusted = np.ones(len(found))
    if finite:
        adjusted[finite] = false_discovery_control([found[i].p_value for i in finite])  # type: ignore[union-attr]
    records = [_record(rows, one, p) for rows, one, p in zip(curves, found, adjusted, strict=True)]
    onsets = pd.DataFrame(records, columns=COLUMNS).astype({"layer": "Int64", "head": "Int64"})
    return onsets.sort_values("t50", kind="stable", ignore_index=True)


def has_scores(table: pd.DataFrame) -> bool:
    """Whether the table has any score that onsets are looked for in."""
    return any(_curves(table, *key) for key in SCORES)


def closest(onsets: pd.DataFrame) -> list[str]:
    """Say of the scores that moved most without an onset why they have none, and how many others there are."""
    if onsets.empty or onsets["onset"].any():
        return []
    order = (onsets["after"] - onsets["before"]).abs().sort_values(ascending=False, kind="stable").index
    lines = [f"{_name(row)} {row['reason']}" for row in onsets.loc[order[:SHOWN]].to_dict("records")]
    return [*lines, *([f"and {len(onsets) - SHOWN} others"] if len(onsets) > SHOWN else [])]


def curve_of(table: pd.DataFrame, row: Mapping[Hashable, Any]) -> pd.DataFrame:
    """Return the curve that a row of `find_onsets` is about, in the order of its steps."""
    axes = {name: row[name] for name in ("relation", "layer", "head") if not pd.isna(row[name])}
    return select(table, row["probe"], row["quantity"], **axes)


def _name(row: Mapping[Hashable, Any]) -> str:
    name = f"{row['probe']} {row['quantity']}"
    if pd.isna(row["layer"]):
        return name
    return f"{head_label(int(row['layer']), int(row['head']))} {name if pd.isna(row['relation']) else row['relation']}"


def _curves(table: pd.DataFrame, probe: str, quantity: str) -> list[pd.DataFrame]:
    chosen = (table["probe"] == probe) & (table["quantity"] == quantity)
    if probe.startswith("Attention") and "relation" in table:
        for name, other in list(SCORES)[: list(SCORES).index((probe, quantity))]:
            told = (table["probe"] == name) & (table["quantity"] == other)
            chosen &= ~table["relation"].isin(table.loc[told, "relation"].dropna())
    if not chosen.any():
        return []
    rows = select(table[chosen], probe, quantity)
    axes = [name for name in ("relation", "layer", "head") if name in rows]
    return [curve for _, curve in rows.groupby(axes, sort=False)] if axes else [rows]


def _measured(rows: pd.DataFrame) -> Rise | str:
    """Return the rise of a curve, downwards where that is progress; or why it cannot be measured."""
    finite = np.isfinite(rows["value"].to_numpy(float))
    if not finite.all():
        return f"is not finite at step {rows['step'].to_numpy()[~finite][0]}"
    return rise(rows["step"].to_numpy(float), _sign(rows) * rows["value"].to_numpy(float))


def _record(rows: pd.DataFrame, found: Rise | str, p_value: float) -> dict[str, Any]:
    first = rows.iloc[0]
    record: dict[str, Any] = {name: first.get(name, pd.NA) for name in KEYS}
    if isinstance(found, str):
        return {**record, "onset": False, "transient": False, "words": "", "reason": found}
    sign = _sign(rows)
    reason = found.rejection
    if len(rows) < FEWEST:
        reason = f"has {len(rows)} checkpoints: fewer than {FEWEST} cannot tell an onset from noise"
    elif not reason and p_value >= FALSE_DISCOVERIES:
        reason = f"may be a curve that never speeds up (p = {p_value:.2g} over all curves)"
    transient = not reason and found.top - found.last >= BACK * (found.top - found.base)
    record |= {"onset": not reason, "transient": transient, "p_value": found.p_value, "reason": reason, "words": ""}
    record |= {"before": sign * found.base, "after": sign * found.top, "last": sign * found.last}
    if not reason:
        for name, time in zip(TIMES, rise_times(_upwards(rows), found), strict=True):
            record |= {name: time.step, f"{name}_lo": time.lo, f"{name}_hi": time.hi}
        record["words"] = _words(record)
    return record


def _sign(rows: pd.DataFrame) -> int:
    return SCORES[str(rows["probe"].iloc[0]), str(rows["quantity"].iloc[0])][0]


def _upwards(rows: pd.DataFrame) -> pd.DataFrame:
    if _sign(rows) == 1:
        return rows
    turned = {name: -rows[name] for name in ("value", "resamples") if name in rows}
    if {"lo", "hi"} <= set(rows):
        turned |= {"lo": -rows["hi"], "hi": -rows["lo"]}
    return rows.assign(**turned)


def _words(record: dict[str, Any]) -> str:
    """Say what began, with its levels."""
    before, after, last, end = (record[name] for name in ("before", "after", "last", "t90_hi"))
    further = f", back to {_two(last)}" if record["transient"] else ", not over yet" if np.isinf(end) else ""
    way = f"({_two(before)} -> {_two(after)}{further})"
    if pd.isna(record["layer"]):
        return f"{SCORES[record['probe'], record['quantity']][1]} {way}"
    head, relation = head_label(int(record["layer"]), int(record["head"])), record["relation"]
    if pd.isna(relation):
        return f"{head} {SCORES[record['probe'], record['quantity']][1]} {way}"
    name, target = HEADS.get(relation, (f"the head of {relation}", relation))
    return f"{head} becomes {name} {way}" if after >= MOST else f"{head} attends more to {target} {way}"


def _two(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # no minus before a zero
