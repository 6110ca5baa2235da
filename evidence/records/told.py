"""What an answer in JSON tells: changes of curves with their intervals, episodes, and what would have been visible."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

INTERVALS = (("t50_lo", "t50_hi"), ("t10_lo", "t90_hi"), ("t10", "t90"), ("t50", "t50"))
"""Fields of an onset that say when it is, from the best on."""


class Change(NamedTuple):
    """A change of level that is told, of the curve that is called one of the names: when, which way, by what cause."""

    names: tuple[str, ...]
    lo: float
    hi: float
    half_way: float
    direction: str = ""
    cause: str = ""


class Episode(NamedTuple):
    """An episode that is told, as a spike."""

    names: tuple[str, ...]
    kind: str
    start: float
    end: float


class Visible(NamedTuple):
    """The smallest change of a curve that would have been found."""

    names: tuple[str, ...]
    size: float


class Answer(NamedTuple):
    """All that is told of a record; without any transition, what would have been visible."""

    changes: tuple[Change, ...] = ()
    episodes: tuple[Episode, ...] = ()
    transitions: int = 0
    visible: tuple[Visible, ...] = ()


def answer_of(written: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Answer:
    """Return what the JSON of `stagewise stages` tells; of several runs, all that is told of any."""
    runs = [written] if isinstance(written, Mapping) else written
    onsets, episodes, power = (
        [row for run in runs for row in run.get(name) or ()] for name in ("onsets", "episodes", "power")
    )
    changes = [_change(row) for row in onsets if row["onset"]]
    return Answer(
        tuple(change for change in changes if change is not None),
        tuple(map(_episode, episodes)),
        max((len(run.get("table") or ()) - 1 for run in runs), default=0),
        tuple(Visible(names_of(row), row["size"] or 0.0) for row in power),
    )


def names_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names under which a truth may ask for the curve of a row."""
    name = row["quantity"]
    if row.get("layer") is None or row.get("head") is None:
        return (name,)
    layer, head = int(row["layer"]), int(row["head"])
    return name, f"L{layer}H{head} {name}", f"{name}/{layer}/{head}"


def _change(row: Mapping[str, Any]) -> Change | None:
    """Return what a row of the onsets tells; None where it says nothing of when."""
    intervals = [(row.get(first), row.get(last)) for first, last in INTERVALS]
    lo, hi = next((each for each in intervals if None not in each), (None, None))
    if lo is None or hi is None:
        return None
    half_way = row["t50"] if row["t50"] is not None else (lo + hi) / 2
    before, after = row["before"], row["after"]
    told = not (before is None or after is None or row.get("transient"))
    direction = ("rises" if after > before else "falls") if told else ""
    return Change(names_of(row), lo, hi, half_way, direction, row.get("cause") or "")


def _episode(row: Mapping[str, Any]) -> Episode:
    start = math.nan if row["start"] is None else row["start"]
    end = row.get("end")
    return Episode(names_of(row), row["kind"], start, start if end is None else end)
