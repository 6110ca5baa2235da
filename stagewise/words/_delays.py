"""Every sentence about delays of transitions."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from stagewise.findings.delays import Comparison
from stagewise.table import head_label
from stagewise.words._events import event_names
from stagewise.words._grammar import capital, more
from stagewise.words._onsets import Row, head
from stagewise.words._times import at, unit, written
from stagewise.words.stages import too_few

SILENT = ("out", "uniform", "relation")
"""Kinds of clamps under which a head's attention says nothing of what is learned: it is not counted as any head's."""

_VERDICTS = {
    "needed": ("{} is needed", "{} are needed"),
    "speeds it up": ("{} speeds it up", "{} speed it up"),
    "does not matter": ("{} does not matter", "{} do not matter"),
    "cannot tell": ("nothing can be told about {}", "nothing can be told about {}"),
}
"""Verdict -> what is said about one, and about several."""

SURE = 0.5
"""Distance up to which a pair of heads is sure: half of that between heads that are no pair."""

LISTED = 10
"""Events that are put into words; all are in the frame."""


def transition(row: Mapping[Any, Any]) -> str:
    """Say which transition of the answer a row is of, and what shows it; without a head, another one has to attend."""
    label, event = str(row["transition"]), row.get("event")
    if not label.startswith("attention to "):
        return f"{label} comes in the loss" if label.startswith("transition ") else label
    which = "another" if str(row.get("kind")) in SILENT else "a"
    attends = f"{which} head attends to {label.removeprefix('attention to ')}"
    return attends if event is None or pd.isna(event) else f"{attends} (transition {event})"


def branch_in_words(row: Mapping[Any, Any]) -> str:
    """Return the change in a row of an intervention, and its order of the batches, in words."""
    words = row["change"] if isinstance(row.get("change"), str) else held_in_words(row)
    order = row.get("seed") or 0
    return f"{words}, order {order:.0f}" if order > 0 else words  # missing where a head is held in the run's own order


def left_out_in_words(classes: Sequence[str]) -> str:
    """Say which classes of predictions a run is trained without."""
    return f"without predictions {', '.join(classes)}"


def delays_in_words(row: Mapping[Any, Any]) -> str:
    """Return a row of an intervention in a sentence."""
    delay = delay_in_words(row["value"], row["lo"], row["hi"])
    return f"{branch_in_words(row)} from {row['step']} ({row['control']}): {transition(row)} {delay}"


def held_in_words(row: Mapping[Any, Any]) -> str:
    """Return which head a row of an intervention held, and how."""
    how = f"on {row['relation']}" if row["kind"] == "relation" else row["kind"]
    return f"{head_label(int(row['layer']), int(row['head']))} {how}"


def delay_in_words(value: float, lo: float, hi: float) -> str:
    """Say how many steps later a transition comes, with its interval; "..." for an end that is not known."""
    if math.isfinite(value):
        return f"{value:z.0f} [{end_in_words(lo)}, {end_in_words(hi)}] steps later"
    if math.isnan(value):
        return "at a step that tells nothing: it does not come in the run beside"
    if math.isinf(lo):
        return "no more, or at any step"
    if round(lo) == 0:
        return "no more, or at the same step at the earliest"
    return f"no more, or {f'more than {lo:.0f} steps later' if lo > 0 else f'from {-lo:.0f} steps earlier on'}"


def end_in_words(steps: int | float) -> str:
    """Return an end of an interval of steps; "..." where it is not known."""
    return f"{steps:z.0f}" if math.isfinite(steps) else "..."


def certified_in_words(rows: Sequence[Mapping[Any, Any]]) -> str:
    """Return one sentence about the heads that a transition needs, from its rows of `certify`."""
    first, parts = rows[0], []
    for verdict, words in _VERDICTS.items():
        of = [row for row in rows if row["verdict"] == verdict]
        named = [(row["subject"], delay_in_words(row["value"], row["lo"], row["hi"])) for row in of]
        names = [f"{name} (without it {delay})" if verdict == "speeds it up" else name for name, delay in named]
        if names:
            parts.append(words[len(names) > 1].format(" and ".join(names)))
    orders = f"{first['seeds']} orders" if first["seeds"] > 1 else "one order"
    how = f"taken away from step {first['step']} on, in {orders} of the batches"
    return f"{capital(transition(first))} at step {first['comes']:.0f}: {'; '.join(parts)} ({how})."


def names(compared: Comparison) -> list[str]:
    """Name the events of two runs; a head, which is a role, also by what it is called in the second run."""
    rows, second = compared.roles.to_dict("records"), compared.runs[1]
    here = {(row["layer"], row["role"]): row for row in rows if row["run"] == second}
    shared = {(row["layer"], row["role"]) for row in rows if row["run"] != second}

    def name_head(labels: Row) -> str:
        role = (int(labels["layer"]), int(labels["head"]))
        if role not in here:
            return head(labels)
        other, sure = head_label(role[0], here[role]["head"]), not here[role]["distance"] > SURE
        if role not in shared:
            return f"{other} of {second}"
        if sure and other == head(labels):
            return other
        return f"{head(labels)} (in {second} {'' if sure else 'perhaps '}{other})"

    return event_names(compared.catalogue, compared.quantities, name_head)


def comparison(compared: Comparison) -> list[str]:
    """Name events: unknown runs, those of both runs, boundaries, then the largest differences; count the rest."""
    runs, unknown, named = compared.runs, compared.unknown, names(compared)
    rows = sorted(compared.events.to_dict("records"), key=_rank)
    lines = [_event(row, named[row["event"]], runs, unknown) for row in rows[:LISTED]]
    neither = [f"no boundary and no onset in {run}" for run in runs if run not in unknown]
    nothing = neither if unknown else ["neither run has a boundary or an onset"]
    few = [f"in {run} {too_few(*numbers)}" for run, numbers in unknown.items()]
    return [*few, *(lines or nothing), *more(len(rows) - len(lines))]


def _rank(row: Mapping[Any, Any]) -> tuple[int, float]:
    """Return an event's place in words: boundaries, what is surely apart, what may not be, what one run alone has."""
    if pd.isna(row["later"]):
        return 3, -row["step"] if pd.notna(row["step"]) else -row["other"]
    if row["kind"] == "boundary":
        return 0, row["step"]
    apart = abs(math.log1p(row["other"]) - math.log1p(row["step"]))
    return (1 if row["later_lo"] > 0 or row["later_hi"] < 0 else 2), -apart


def _event(row: Row, name: str, runs: tuple[str, str], unknown: Mapping[str, object]) -> str:
    without = {run: f"not known in {run}" if run in unknown else f"no such {row['kind']} in {run}" for run in runs}
    if pd.isna(row["other"]):
        return f"{name}: at {at(row['step'])} in {runs[0]}, {without[runs[1]]}"
    if pd.isna(row["step"]):
        return f"{name}: at {at(row['other'])} in {runs[1]}, {without[runs[0]]}"
    both = f"{name}: at {at(row['step'])} in {runs[0]}, {written(row['other'])} in {runs[1]}"
    return f"{both}, {later(row)}"


def later(row: Mapping[Any, Any]) -> str:
    """Say how much later an event came in the second run, or that its intervals do not tell."""
    lo, hi = row["later_lo"], row["later_hi"]
    if hi < 0:
        return f"{written(-row['later'])} [{written(-hi)}, {written(-lo)}] {unit()} earlier"
    if lo > 0:
        return f"{written(row['later'])} [{written(lo)}, {written(hi)}] {unit()} later"
    return f"which is earlier cannot be told: {written(row['later'])} [{written(lo)}, {written(hi)}] {unit()}"
