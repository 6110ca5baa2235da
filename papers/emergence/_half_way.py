"""The order of emergence: when the weights, the attention, the loss and the accuracy came half-way."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from stagewise.criteria import DEFAULT, StageCriteria
from stagewise.papers.emergence_interval import emergence_interval
from stagewise.statistics import PARTS, Interval
from stagewise.table import Role, head_label, select, with_role

Kind = Literal["weights", "attention", "loss", "accuracy"]
"""The curves that emerge."""


class HalfWay(NamedTuple):
    """A curve came half-way from its first to its last value, within an interval of steps."""

    kind: Kind
    what: str
    half: float
    interval: Interval

    def __str__(self) -> str:
        return f"{self.what} passes {self.half:.2f}"


ROLES: dict[Kind, Role] = {
    "weights": Role.ALIGNMENT,
    "attention": Role.ATTENTION_ALONG,
    "loss": Role.LOSS,
    "accuracy": Role.ACCURACY,
}
"""Kind of event -> the role of the quantity that shows it."""


class Rise(NamedTuple):
    """When a curve had made a tenth, a half and nine tenths of its way from the first to the last value.

    `first` is the step of its first value: of a rise that begins there, no plateau is known.
    """

    tenth: Interval
    half: Interval
    most: Interval
    first: int


def curves(table: pd.DataFrame, kind: Kind) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the name and the rows of every curve of a kind: one a head and a relation or feature, one of loss.

    None where the table has no rows of its role.
    """
    quantities = with_role(table, ROLES[kind])
    if not quantities:
        return
    rows = select(table, *quantities[0])
    axes = [name for name in ("relation", "feature", "layer", "head") if name in rows]
    if not axes:
        yield kind, rows
        return
    for (of, layer, head), curve in rows.groupby(axes, sort=False):
        yield f"{head_label(int(str(layer)), int(str(head)))}, {of}", curve


def events(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> list[HalfWay]:
    """List when each curve came half-way to its last value, in order; where it moved by `growth` or more."""
    found = []
    for kind, name, rows in moved_curves(table, criteria):
        steps, values = rows["step"].to_numpy(), rows["value"].to_numpy()
        half = (float(values[0]) + float(values[-1])) / 2
        interval = emergence_interval(steps, values, half, "down" if kind == "loss" else "up")
        found.append(HalfWay(kind, name, half, interval))
    return sorted(found, key=lambda event: event.interval)


def moved_curves(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> Iterator[tuple[Kind, str, pd.DataFrame]]:
    """Yield the curves that came `growth` or more further, with their kind and name."""
    for kind in ROLES:
        for name, rows in curves(table, kind):
            first, last = (float(rows["value"].iloc[place]) for place in (0, -1))
            if (1 - last / first if kind == "loss" else last - first) >= criteria.growth:
                yield kind, name, rows


def rise_of(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> Rise | None:
    """Return when the accuracy rose; None if it grew by less than `growth`."""
    rows = select(table, "Accuracy", "accuracy")
    return _rise(rows["step"].to_numpy(), rows["value"].to_numpy(), criteria.growth)


def _rise(steps: np.ndarray, values: np.ndarray, least: float) -> Rise | None:
    """Return when a curve rose; None if it grew by less than asked."""
    first, last = float(values[0]), float(values[-1])
    if last - first < least:
        return None
    tenth, half, most = (emergence_interval(steps, values, first + part * (last - first)) for part in PARTS)
    return Rise(tenth, half, most, int(steps[0]))


def in_words(events: Sequence[HalfWay], rise: Rise | None) -> str:
    """Say how long the plateau was, when it ended, and what came half-way first, then, and last."""
    if not events:
        return "Nothing emerged in this run: neither accuracy nor attention grew; a longer budget may show it."
    plateau = "The accuracy did not rise."
    if rise is not None:
        most = "the end" if rise.most.censored else f"step {rise.most.hi:g}"
        until = (
            f"The plateau lasts until step {rise.tenth.lo:g}" if rise.tenth.lo > rise.first else "No plateau is seen"
        )
        plateau = (
            f"{until}; the accuracy is half-way between steps {_steps(rise.half, ' and ')} and has nine tenths of its "
            f"rise by {most}."
        )
    firsts = {event.kind: event for event in reversed(events)}
    order = sorted(firsts.values(), key=lambda event: event.interval)
    words = f" Half-way came {_first(order[0])}"
    for before, event in itertools.pairwise(order):
        words += (", then " if event.interval.lo >= before.interval.hi else ", together with ") + _first(event)
    return f"{plateau}{words}."


def _first(event: HalfWay) -> str:
    of = f"{event.what}: " if event.what != event.kind else ""
    return f"{event.kind} ({of}steps {_steps(event.interval, ' to ')})"


def _steps(interval: Interval, between: str) -> str:
    return f"{interval.lo:g}{between}{interval.hi:g}"
