"""Findings in words: every sentence about stages, turning points and onsets; `head_words` has those about heads."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from stagewise.findings.frames import largest
from stagewise.findings.head_labels import DIFFUSE
from stagewise.findings.scores import labels_of
from stagewise.statistics import DEFAULT, OnsetVerdict, StageCriteria, TurnVerdict
from stagewise.table import Quantity, head_label

Row = Mapping[Any, Any]
"""A row of a frame of findings."""

TURNS = {
    TurnVerdict.PLATEAU: "has its minimum after a plateau",
    TurnVerdict.CLOSE: "has its minimum with the model close to the reference, without a plateau",
    TurnVerdict.COMPLETE: "is the complete reference: it ends no stage",
    TurnVerdict.PASSED: "is only passed: the model neither came close nor paused (learning slows to {slowdown:.0%})",
    TurnVerdict.OUT_OF_ORDER: "has its minimum, within its error, no later than the reference before it",
    TurnVerdict.NOT_APPROACHED: "is not approached: it falls by {fall:.2g} of {start:.2g} nats before its minimum",
    TurnVerdict.NOT_FINITE: "cannot be judged: KL to it, or to the complete reference, is not finite at step {step}",
    TurnVerdict.NO_RISE: "has no turning point: it rises by less than {criteria.depth:.0%} of its fall",
    TurnVerdict.NOISE: "has no turning point: noise alone could cause such a rise",
    TurnVerdict.OVERFITS: "rises again with the complete reference: overfitting, which ends no stage",
    TurnVerdict.COINCIDES: "has its minimum at {cause}: it ends no stage",
    TurnVerdict.CORROBORATES: "has its minimum at the end of stage {ends_stage}",
    TurnVerdict.ELSEWHERE: "has its minimum away from every boundary",
}
NO_ONSETS = {
    OnsetVerdict.NOT_FINITE: "is not finite at step {not_finite_at}",
    OnsetVerdict.FEW_CHECKPOINTS: "has too few checkpoints, {checkpoints}: fewer than {criteria.fewest} cannot "
    "tell an onset from noise",
    OnsetVerdict.SMALL: "moves by {size}, less than {least}",
    OnsetVerdict.NOISE: "moves by {size}: noise of {noise:.2g} could cause that",
    OnsetVerdict.EARLY: "moves from the start of the run on: what it did before is not known",
    OnsetVerdict.LATE: "moves until the end of the run: whether it slows down after that is not known",
    OnsetVerdict.SPIKE: "moves at three checkpoints at most",
    OnsetVerdict.GRADUAL: "moves gradually: {share:.0%} of the way within a ratio of {criteria.local:g} in steps",
    OnsetVerdict.COMMON: "moves no faster than before or after",
    OnsetVerdict.WANDERS: "may be a random walk: it moves slowly all the time",
    OnsetVerdict.STEADY: "may be a smooth curve with noise (p = {p_adjusted:.2g} over all curves)",
    OnsetVerdict.COINCIDES: "coincides with {cause}",
}
"""Verdict -> why there is no onset."""

GROUPS = {
    "moved too little, or by noise alone": (OnsetVerdict.SMALL, OnsetVerdict.NOISE),
    "moved gradually, as at other times, or at one checkpoint": (
        *(OnsetVerdict.GRADUAL, OnsetVerdict.COMMON, OnsetVerdict.SPIKE),
    ),
    "moved from the start on, or until the end": (OnsetVerdict.EARLY, OnsetVerdict.LATE),
    "may be smooth": (OnsetVerdict.STEADY,),
    "may wander": (OnsetVerdict.WANDERS,),
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
"""What a head with most of its attention on a relation is called, and what it attends to otherwise."""

LARGE = 1e6
"""Changes from which on levels are written in three digits."""

LISTED, SHOWN = 8, 5
"""Onsets of one stage, and scores without an onset, that are written out."""


def stages(table: pd.DataFrame) -> list[str]:
    """Say of each stage from when to when it lasts, and what happened in it."""
    return [
        f"stage {row['stage']}, steps {_edge(row, 'start')} to {_edge(row, 'end')}: {row['summary']}"
        for row in table.to_dict("records")
    ]


def _edge(row: Row, edge: str) -> str:
    step, lo, hi = (row[edge + suffix] for suffix in ("", "_lo", "_hi"))
    return f"{step}" if lo == hi == step else f"{step} [{lo}, {hi}]"


def turning_point(row: Row, criteria: StageCriteria = DEFAULT) -> str:
    """Return the decision on a turning point in words.

    >>> turning_point({"verdict": "not approached", "fall": 0.1, "start": 2.0})
    'is not approached: it falls by 0.1 of 2 nats before its minimum'
    >>> turning_point({"verdict": "not approached", "fall": 0.0, "start": 0.0})
    'is not approached: KL to it never falls below its first value'
    """
    if row["verdict"] == TurnVerdict.NOT_APPROACHED and row["fall"] == 0:
        return "is not approached: KL to it never falls below its first value"
    return TURNS[TurnVerdict(row["verdict"])].format(**row, criteria=criteria)


def no_boundaries(points: pd.DataFrame) -> list[str]:
    """Say of each curve of KL why it ends no stage."""
    return [f"{row['reference']} {row['reason']}" for row in points.to_dict("records")]


def reference_stage(events: pd.DataFrame, goal: str, before: float, lowest: float, after: float) -> str:
    """Say what the heads did in a stage, how close the model came to the reference, and whether it left it again."""
    kl = f"KL to {goal} {'falls to' if lowest < before else 'is'} {lowest:.2g}"
    return "; ".join(
        [*head_events(events), kl + (f", then rises to {after:.2g}: overfitting" if after > lowest else "")]
    )


def head_events(events: pd.DataFrame) -> list[str]:
    """Say what the heads did, heads that did the same together."""
    phrases = []
    for (before, after), rows in events.groupby(["before", "after"], sort=False):
        heads = ", ".join(map(head_label, rows["layer"], rows["head"]))
        take, leave = ("take", "leave") if len(rows) > 1 else ("takes", "leaves")
        if before == DIFFUSE:
            phrases.append(f"{heads} {take} {after}")
        else:
            phrases.append(f"{heads} {leave} {before}" + ("" if after == DIFFUSE else f" for {after}"))
    return phrases


def _open_end(row: Row, last: float) -> str:
    """Say that a transition goes on at the end of a run, or that it may."""
    if np.isfinite(row["t90_hi"]):
        return ""
    return ", not over yet" if row["t90"] >= last else ", perhaps not over yet"


def onset(
    row: Row, quantity: Quantity, last: float, criteria: StageCriteria = DEFAULT, offset: int | None = None
) -> str:
    """Say what began in a row of `find_onsets`, with its levels; the `last` step says whether it is over.

    Where all that a head attends to lies at one `offset`, that is said too.
    """
    labels, after, size = labels_of(row), row["after"], abs(row["after"] - row["before"])
    end = f", back to {_level(row['last'], size)}" if row["transient"] else _open_end(row, last)
    way = f"({_level(row['before'], size)} -> {_level(after, size)}{end})"
    up = bool(after >= row["before"])
    named = up and after >= criteria.most and _is_attention(labels, quantity)
    what = f"{head(labels)} becomes {_attended(labels)[0]}" if named else change(labels, quantity, up=up)
    if up and offset is not None:
        what += f", or {'one of' if named else 'to'} offset {offset}: the same on this batch"
    return f"{what} {way}"


def change(labels: Row, quantity: Quantity, *, up: bool) -> str:
    """Say that a curve rises or falls, or what begins with that.

    >>> change({"layer": 1, "head": 2, "relation": "induction"}, Quantity("mass", "", (0, 1), "up"), up=True)
    'L1H2 attends more to what followed the token before'
    >>> change({"position": 7}, Quantity("loss", "nats", progress="down"), up=False)
    'position 7: loss falls'
    """
    if _is_attention(labels, quantity):
        return f"{head(labels)} attends {'more' if up else 'less'} to {_attended(labels)[1]}"
    curve = curve_label(labels)
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


def curve_label(labels: Row) -> str:
    """Name a curve by its labels, by axis; one without any has no name.

    >>> curve_label({"layer": 0, "head": 3, "feature": "copy"}), curve_label({"position": 7})
    ('L0H3, feature copy', 'position 7')
    """
    of_head = {"layer", "head"} <= labels.keys()
    others = [f"{name} {label}" for name, label in labels.items() if not (of_head and name in ("layer", "head"))]
    return ", ".join([head(labels), *others] if of_head else others)


def head(row: Row) -> str:
    """Name the head that a row is about."""
    return head_label(int(row["layer"]), int(row["head"]))


def _level(value: float, change: float) -> str:
    if change >= LARGE:
        return format(value, ".3g")
    digits = 2 if change >= 0.1 or change == 0 else 1 - int(np.floor(np.log10(change)))
    return format(round(value, digits) + 0.0, ".2f" if digits == 2 else ".12g")  # no minus before a zero


def no_onset(row: Row, criteria: StageCriteria = DEFAULT) -> str:
    """Say why a curve has no onset.

    >>> no_onset({"verdict": "small", "before": 0.05, "after": 0.06})
    'moves by 0.01, less than 0.1'
    >>> no_onset({"verdict": "small", "before": 0, "after": 0.0997})
    'moves by 0.0997, less than 0.1'
    >>> no_onset({"verdict": "small", "before": 3, "after": 3})
    'does not move'
    """
    verdict, size = OnsetVerdict(row["verdict"]), abs(row["after"] - row["before"]) if "after" in row else np.nan
    if verdict is OnsetVerdict.SMALL and size == 0:
        return "does not move"
    least = format(criteria.smallest, ".3g")
    return NO_ONSETS[verdict].format(**row, size=_below(size, float(least)), least=least, criteria=criteria)


def _below(size: float, bound: float) -> str:
    """Write a number in as many digits as tell it from a bound that it is below."""
    digits = next((n for n in (2, 3, 4) if not size < bound or float(f"{size:.{n}g}") < bound), 5)
    return f"{size:.{digits}g}"


def began(onsets: pd.DataFrame) -> list[str]:
    """Say what began when, a line an onset, of many the largest ones."""
    if onsets.empty or not onsets["onset"].any():
        return []
    chosen = onsets[onsets["onset"]]
    lines = [f"step {half_way(row)}: {row['words']}" for row in largest(chosen, LISTED).to_dict("records")]
    return [*lines, *([f"and {len(chosen) - LISTED} more"] if len(chosen) > LISTED else [])]


def no_onsets(onsets: pd.DataFrame) -> list[str]:
    """Say of the scores that moved most why they have no onset, and how many others there are; nothing of onsets."""
    if onsets.empty or onsets["onset"].any():
        return []
    order = (onsets["after"] - onsets["before"]).abs().sort_values(ascending=False, kind="stable").index
    lines = [f"{_score(row)} {row['reason']}" for row in onsets.loc[order[:SHOWN]].to_dict("records")]
    return [*lines, *([f"and {len(onsets) - SHOWN} others"] if len(onsets) > SHOWN else [])]


def not_judged(onsets: pd.DataFrame) -> list[str]:
    """Say of which scores nothing is known, since they are not finite somewhere; nothing where that is said already."""
    if onsets.empty or not onsets["onset"].any():
        return []
    rows = onsets[onsets["verdict"] == OnsetVerdict.NOT_FINITE].to_dict("records")
    lines = [f"{_score(row)} cannot be judged: it {row['reason']}" for row in rows[:SHOWN]]
    return [*lines, *([f"and {len(rows) - SHOWN} others"] if len(rows) > SHOWN else [])]


def with_causes(onsets: pd.DataFrame) -> list[str]:
    """Say how many scores changed with what was done to the run, beside the onsets; nothing where there are none."""
    if onsets.empty or not onsets["onset"].any():
        return []
    return [f"not counted: {number} more that may come from {cause}" for cause, number in by_cause(onsets).items()]


def by_cause(onsets: pd.DataFrame) -> dict[str, int]:
    """Return how many scores changed with each known cause, by its name."""
    coincide = onsets[onsets["verdict"] == OnsetVerdict.COINCIDES]
    return {str(cause): len(rows) for cause, rows in coincide.groupby("cause", sort=False)} if len(coincide) else {}


def _score(row: Row) -> str:
    labels = labels_of(row)
    if labels.keys() == {"layer", "head", "relation"}:
        return f"{head(labels)} {labels['relation']}"
    return f"{curve_label(labels)} {row['probe']} {row['quantity']}".lstrip()


def without_onset(onsets: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> str:
    """Say how many scores have no onset, and why.

    >>> without_onset(pd.DataFrame({"verdict": ["onset", "small"]}))
    '2 scores were examined, 1 of them without onset: 1 moved too little, or by noise alone.'
    """
    if "transition" in onsets:
        onsets = onsets[onsets["transition"] == 1]
    against = onsets.loc[onsets["verdict"] != OnsetVerdict.ONSET, "verdict"]
    numbers = {words: against.isin(group).sum() for words, group in GROUPS.items()}
    numbers |= {f"may come from {cause}": number for cause, number in by_cause(onsets).items()}
    counted = ", ".join(f"{number} {words}" for words, number in numbers.items() if number)
    lead = f"{_scores(onsets)} {'was' if len(onsets) == 1 else 'were'} examined"
    return f"{lead}, {len(against)} of them without onset: {counted}." if counted else f"{lead}; all have an onset."


def _scores(onsets: pd.DataFrame) -> str:
    return f"{len(onsets)} score{'' if len(onsets) == 1 else 's'}"


def before_onsets(onsets: pd.DataFrame) -> str:
    """Say what the first stage is: the time before the first onset, or all of it."""
    return "before the first onset" if onsets["onset"].any() else f"no onset in {_scores(onsets)}"


def onset_stage(onsets: pd.DataFrame, spread: bool = False) -> str:
    """Say what began at the start of a stage, of many onsets the largest; where there are several, with their times.

    Args:
        onsets: those of the stage, in the order of t50.
        spread: whether they follow one another over a period.
    """
    rows = largest(onsets, LISTED).to_dict("records")
    several = len(onsets) > 1
    phrases = [f"{row['words']}, step {half_way(row)}" if several else str(row["words"]) for row in rows]
    over = f"one after another, steps {onsets['t50'].iloc[0]:.0f} to {onsets['t50'].iloc[-1]:.0f}: " if spread else ""
    return over + "; ".join([*phrases, *([f"and {len(onsets) - LISTED} more"] if len(onsets) > LISTED else [])])


def half_way(row: Row) -> str:
    """Write the step at which an onset was half-way, with its interval."""
    end = "..." if np.isinf(row["t50_hi"]) else f"{row['t50_hi']:.0f}"
    return f"{row['t50']:.0f} [{row['t50_lo']:.0f}, {end}]"
