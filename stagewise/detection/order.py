"""What emerged in which order: the weights, the attention, the loss and the accuracy, each when it came half-way."""

import itertools
from collections.abc import Iterator
from typing import Literal, NamedTuple

import pandas as pd

from stagewise.detection.thresholds import Interval, emergence_interval
from stagewise.table import head_label, heads_in, select

GROWTH = 0.2
"""Attention, a cosine or an accuracy that grows by less over the run is no event, nor a loss that falls by less of
itself."""

Kind = Literal["weights", "attention", "loss", "accuracy"]

QUANTITIES: dict[Kind, tuple[str, str]] = {
    "weights": ("ValueAlignment", "cosine"),
    "attention": ("AttentionTo", "along"),
    "loss": ("Loss", "cross_entropy"),
    "accuracy": ("Accuracy", "accuracy"),
}
"""Kind of event -> the probe and quantity that show it."""


class Event(NamedTuple):
    """Something came half-way from its first to its last value, within an interval of steps."""

    kind: Kind
    what: str
    half: float
    interval: Interval

    def __str__(self) -> str:
        return f"{self.what} passes {self.half:.2f}"


class Rise(NamedTuple):
    """When the accuracy had made a tenth, a half and nine tenths of its way from the first to the last value."""

    tenth: Interval
    half: Interval
    most: Interval


def curves(table: pd.DataFrame, kind: Kind) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the name and the rows of every curve of a kind: one a head and a relation or feature, one of loss.

    None where the table has no rows of its probe.
    """
    probe, quantity = QUANTITIES[kind]
    found = table[(table["probe"] == probe) & (table["quantity"] == quantity)]
    if found.empty:
        return
    rows = select(table, probe, quantity)
    axes = [name for name in ("relation", "feature", "layer", "head") if name in rows]
    if not axes:
        yield kind, rows
        return
    for (of, *_), curve in rows.groupby(axes, sort=False):
        ((layer, head),) = heads_in(curve)
        yield f"{head_label(layer, head)}, {of}", curve


def events(table: pd.DataFrame) -> list[Event]:
    """List when each curve came half-way to its last value, in order; what hardly moved is left out."""
    found = []
    for kind in QUANTITIES:
        for name, rows in curves(table, kind):
            steps, values = rows["step"].to_numpy(), rows["value"].to_numpy()
            first, last = float(values[0]), float(values[-1])
            moved = 1 - last / first if kind == "loss" else last - first
            if moved >= GROWTH:
                half = (first + last) / 2
                interval = emergence_interval(steps, values, half, "down" if kind == "loss" else "up")
                found.append(Event(kind, name, half, interval))
    return sorted(found, key=lambda event: event.interval)


def rise_of(table: pd.DataFrame) -> Rise | None:
    """Return when the accuracy rose; None if it grew by less than GROWTH."""
    rows = select(table, "Accuracy", "accuracy")
    steps, values = rows["step"].to_numpy(), rows["value"].to_numpy()
    first, last = float(values[0]), float(values[-1])
    if last - first < GROWTH:
        return None
    return Rise(*(emergence_interval(steps, values, first + part * (last - first)) for part in (0.1, 0.5, 0.9)))


def in_words(table: pd.DataFrame) -> str:
    """Say how long the plateau was, when it ended, and what came half-way first, then, and last."""
    found, rise = events(table), rise_of(table)
    if not found:
        return "Nothing emerged in this run: neither accuracy nor attention grew; a longer budget may show it."
    said = "The accuracy did not rise."
    if rise is not None:
        most = f"step {rise.most.hi:g}" if not rise.most.censored else "the end"
        said = (
            f"The plateau lasts until step {rise.tenth.lo:g}; the accuracy is half-way between steps "
            f"{_steps(rise.half)} and has nine tenths of its rise by {most}."
        )
    firsts = {event.kind: event for event in reversed(found)}
    order = sorted(firsts.values(), key=lambda event: event.interval)
    words = f" Half-way came {_first(order[0])}"
    for before, event in itertools.pairwise(order):
        words += (", then " if event.interval.lo >= before.interval.hi else ", together with ") + _first(event)
    return f"{said}{words}."


def _first(event: Event) -> str:
    of = f"{event.what}: " if event.what != event.kind else ""
    return f"{event.kind} ({of}steps {_steps(event.interval, ' to ')})"


def _steps(interval: Interval, between: str = " and ") -> str:
    return f"{interval.lo:g}{between}{interval.hi:g}"
