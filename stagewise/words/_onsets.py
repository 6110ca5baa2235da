"""Every sentence about onsets of scores, from the rows of `find_onsets`."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from stagewise.criteria import DEFAULT, OnsetVerdict, StageCriteria
from stagewise.event import Causes, Context, labels_of
from stagewise.table import Quantity, head_label
from stagewise.words._grammar import count
from stagewise.words._times import at, span, written

Row = Mapping[Any, Any]
"""A row of a frame of findings."""

NO_ONSETS = {
    OnsetVerdict.NOT_FINITE: "is not finite at {when}",
    OnsetVerdict.FEW_CHECKPOINTS: "has too few checkpoints, {checkpoints}: fewer than {criteria.fewest} cannot "
    "tell an onset from noise",
    OnsetVerdict.SMALL: "moves by {size}, less than {least}",
    OnsetVerdict.EARLY: "falls from the first checkpoint on, as every loss does",
    OnsetVerdict.SPIKE: "moves, and is back soon after",
    OnsetVerdict.COMMON: "moves no faster than before or after",
    OnsetVerdict.STEADY: "may be gradual, or noise",
    OnsetVerdict.COINCIDES: "coincides with {cause}",
}
"""Verdict -> why there is no onset."""

GROUPS = {
    "moved too little": (OnsetVerdict.SMALL,),
    "moved for a short time, or at first": (OnsetVerdict.SPIKE, OnsetVerdict.EARLY),
    "moved gradually, as at other times, or by noise": (OnsetVerdict.STEADY, OnsetVerdict.COMMON),
    "cannot be judged": (OnsetVerdict.FEW_CHECKPOINTS, OnsetVerdict.NOT_FINITE),
}
"""Reasons against an onset that are counted together; what coincides with a cause is counted by the cause."""

HEADS = {
    "previous token": ("a previous-token head", "the previous token"),
    "duplicate token": ("a duplicate-token head", "the same token earlier"),
    "induction": ("an induction head", "what followed the token before"),
    "first token": ("a first-token head", "the first token"),
    "self": ("a self-attending head", "its own position"),
}
"""The name of a head with most of its attention on a relation, and the words for such attention otherwise."""

RESTING = ("first token", "self")
"""Relations along which attention rests where a head reads nothing: heads of others are named before theirs."""

LARGE = 1e6
"""Changes from which on levels are written in three digits."""

ROUNDED = 1e-9
"""Part of a step, at most, by which rounding moves a time: checkpoints are whole steps apart."""

LISTED, SHOWN = 8, 5
"""Onsets of one stage, and scores without an onset, that are written out."""


def cause(name: str, causes: Causes) -> str:
    """Name a run's cause with its step, or with its first and last one; nothing where there is none.

    >>> cause("a restart", {"a restart": 2910})
    'a restart at step 2910'
    >>> cause("the learning rate's warm-up", {"the learning rate's warm-up": (0, 500)})
    "the learning rate's warm-up, until step 500"
    """
    when = causes.get(name)
    if not isinstance(when, Sequence):
        return name if when is None else f"{name} at {at(when)}"
    begins = f"from {at(when[0])} on, " if when[0] > 0 else ""
    return f"{name}, {begins}until {at(when[1])}"


def _open_end(row: Row) -> str:
    """Say that a transition goes on at the end of a run, or that it may."""
    if np.isfinite(row["t90_hi"]):
        return ""
    last = row["last_step"] * (1 - ROUNDED)  # to which t90 was limited
    return ", not over yet" if row["t90"] >= last else ", perhaps not over yet"


def onsets(frame: pd.DataFrame, context: Context) -> list[str]:
    """Say of each row of `find_onsets` what began."""
    return [onset(row, context.quantity(row), context.criteria) for row in frame.to_dict("records")]


def onset(row: Row, quantity: Quantity, criteria: StageCriteria = DEFAULT) -> str:
    """Return the onset in a row in words, with its levels, and the one offset of all keys, if there is one."""
    labels, after, size = labels_of(row), row["after"], abs(row["after"] - row["before"])
    offset = row.get("at_offset", pd.NA)
    if pd.notna(offset) and "relation" not in labels:
        quantity = dataclasses.replace(quantity, onset=f"attends to offset {offset}")
    end = f", back to {level(row['last'], size)}" if row["transient"] else _open_end(row)
    way = f"({level(row['before'], size)} -> {level(after, size)}{end})"
    up = bool(after >= row["before"])
    named = up and row["before"] < criteria.most <= after and _is_attention(labels, quantity)
    what = f"{head(labels)} becomes {_attended(labels)[0]}" if named else change(labels, quantity, up=up)
    if up and pd.notna(offset) and "relation" in labels:
        what += f", or {'one of' if named else 'to'} offset {offset}: the same on this batch"
    return f"{what} {way}"


def change(labels: Row, quantity: Quantity, *, up: bool, name_head: Callable[[Row], str] | None = None) -> str:
    """Say that a curve rises or falls, or what begins with that; `name_head` may name its head in another way.

    >>> change({"layer": 1, "head": 2, "relation": "induction"}, Quantity("mass", "", (0, 1), "up"), up=True)
    'L1H2 attends more to what followed the token before'
    >>> change({"position": 7}, Quantity("loss", "nats", progress="down"), up=False)
    'position 7: loss falls'
    """
    if _is_attention(labels, quantity):
        return f"{(name_head or head)(labels)} attends {'more' if up else 'less'} to {_attended(labels)[1]}"
    curve = curve_label(labels, name_head)
    if quantity.onset and up == (quantity.progress != "down"):
        return f"{curve} {quantity.onset}".lstrip()
    phrase = f"{quantity.label} {'rises' if up else 'falls'}"
    return f"{curve}: {phrase}" if curve else phrase


def _attended(labels: Row) -> tuple[str, str]:
    relation = labels["relation"]
    return HEADS.get(relation, (f"a head of {relation}", relation))


def _is_attention(labels: Row, quantity: Quantity) -> bool:
    """Whether a curve is a share of a head's attention to a relation, which has a phrase of its own."""
    share = quantity.progress == "up" and quantity.range == (0, 1) and not quantity.onset
    return share and labels.keys() == {"layer", "head", "relation"}


def curve_label(labels: Row, name_head: Callable[[Row], str] | None = None) -> str:
    """Name a curve by its labels, by axis; one without any has no name."""
    of_head = {"layer", "head"} <= labels.keys()
    others = [f"{name} {label}" for name, label in labels.items() if not (of_head and name in ("layer", "head"))]
    return ", ".join([(name_head or head)(labels), *others] if of_head else others)


def head(row: Row) -> str:
    """Name the head that a row is about."""
    return head_label(int(row["layer"]), int(row["head"]))


def level(value: float, change: float) -> str:
    """Write a level in as many digits as tell a change of it."""
    if change >= LARGE:
        return format(value, ".3g")
    digits = 2 if change >= 0.1 or change == 0 else 1 - int(np.floor(np.log10(change)))
    return format(round(value, digits) + 0.0, ".2f" if digits == 2 else ".12g")  # no minus before a zero


def no_onset(row: Row, criteria: StageCriteria = DEFAULT, causes: Causes | None = None) -> str:
    """Say why a curve has no onset.

    >>> no_onset({"verdict": "small", "before": 0.05, "after": 0.06, "smallest": 0.1})
    'moves by 0.01, less than 0.1'
    >>> no_onset({"verdict": "small", "before": 0, "after": 0.0997, "smallest": 0.1})
    'moves by 0.0997, less than 0.1'
    >>> no_onset({"verdict": "small", "before": 3, "after": 3})
    'does not move'
    """
    verdict, size = OnsetVerdict(row["verdict"]), abs(row["after"] - row["before"]) if "after" in row else np.nan
    if verdict is OnsetVerdict.SMALL and size == 0:
        return "does not move"
    least = format(row.get("smallest", np.nan), ".3g")
    words = {**row, "cause": cause(row.get("cause", ""), causes or {})}
    if verdict is OnsetVerdict.NOT_FINITE:
        words["when"] = at(row["not_finite_at"])
    return NO_ONSETS[verdict].format(**words, size=_below(size, float(least)), least=least, criteria=criteria)


def _below(size: float, bound: float) -> str:
    """Write a number in as many digits as tell it from a bound that it is below."""
    digits = next((n for n in (2, 3, 4) if not size < bound or float(f"{size:.{n}g}") < bound), 5)
    return f"{size:.{digits}g}"


def largest(onsets: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return the largest onsets, every score's first, in their order: sizes of different units are not compared."""
    size = (onsets["after"] - onsets["before"]).abs()
    score = [onsets[name] for name in ("probe", "quantity", "relation") if name in onsets]
    turn = size.groupby(score, dropna=False).rank(ascending=False, method="first") if score else 1.0
    by = {"turn": turn, **({"p": onsets["p_value"]} if "p_value" in onsets else {}), "size": -size}
    order = pd.DataFrame(by).sort_values([*by], kind="stable")
    return onsets[onsets.index.isin(order.index[:most])]


def timed(frame: pd.DataFrame, context: Context) -> list[str]:
    """Say of each onset what began, and when it was half-way."""
    rows = frame.to_dict("records")
    return [f"{words}, {_time(row)}" for words, row in zip(onsets(frame, context), rows, strict=True)]


def _time(row: Row) -> str:
    """Name the step at which an onset was half-way; of one within a gap the gap."""
    within_gap = pd.notna(gap := row.get("within_gap")) and gap
    return span(row["t50_lo"], row["t50_hi"]) if within_gap else at(half_way(row))


def no_onsets(onsets: pd.DataFrame, context: Context) -> list[str]:
    """Say of the scores that moved most why they have no onset, and how many others there are; nothing of onsets."""
    if onsets.empty or onsets["onset"].any():
        return []
    order = (onsets["after"] - onsets["before"]).abs().sort_values(ascending=False, kind="stable").index
    rows = onsets.loc[order[:SHOWN]].to_dict("records")
    lines = [f"{_score(row)} {no_onset(row, context.criteria, context.causes)}" for row in rows]
    return [*lines, *_others(len(onsets))]


def not_judged(onsets: pd.DataFrame, context: Context) -> list[str]:
    """Say of which scores nothing is known, since they are not finite somewhere; nothing where that is said already."""
    if onsets.empty or not onsets["onset"].any():
        return []
    rows = onsets[onsets["verdict"] == OnsetVerdict.NOT_FINITE].to_dict("records")
    lines = [f"{_score(row)} cannot be judged: it {no_onset(row, context.criteria)}" for row in rows[:SHOWN]]
    return [*lines, *_others(len(rows))]


def _others(scores: int) -> list[str]:
    """Count the scores that are not written out."""
    return [f"and {scores - SHOWN} others"] if scores > SHOWN else []


def by_cause(onsets: pd.DataFrame, causes: Causes) -> dict[str, pd.DataFrame]:
    """Return the scores that changed with each known cause, by its name and step."""
    coincide = onsets[onsets["verdict"] == OnsetVerdict.COINCIDES]
    groups = coincide.groupby("cause", sort=False) if len(coincide) else ()
    return {cause(str(name), causes): rows for name, rows in groups}


def _score(row: Row) -> str:
    labels = labels_of(row)
    if labels.keys() == {"layer", "head", "relation"}:
        return f"{head(labels)} {labels['relation']}"
    return f"{curve_label(labels)} {row['probe']} {row['quantity']}".lstrip()


def without_onset(onsets: pd.DataFrame, causes: Causes | None = None) -> str:
    """Say how many scores have no onset, and why."""
    if "transition" in onsets:
        onsets = onsets[onsets["transition"] == 1]
    against = onsets.loc[onsets["verdict"] != OnsetVerdict.ONSET, "verdict"]
    numbers = {words: against.isin(group).sum() for words, group in GROUPS.items()}
    numbers |= {f"may come from {cause}": len(rows) for cause, rows in by_cause(onsets, causes or {}).items()}
    counted = ", ".join(f"{number} {words}" for words, number in numbers.items() if number)
    lead = f"{count(len(onsets), 'score')} {'was' if len(onsets) == 1 else 'were'} examined"
    return f"{lead}, {len(against)} of them without onset: {counted}." if counted else f"{lead}; all have an onset."


def half_way(row: Row) -> str:
    """Write the step at which an onset was half-way, with its interval."""
    return f"{written(row['t50'])} [{written(row['t50_lo'])}, {written(row['t50_hi'])}]"
