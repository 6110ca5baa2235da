"""An event of a run as data: what happened, to which curve, in which direction; its times stand beside it."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from stagewise.criteria import DEFAULT, StageCriteria
from stagewise.table import Quantities, Quantity

Causes = Mapping[str, int | float | Sequence[int | float]]
"""Name of what was done to a run -> its step, as in {"the learning-rate drop": 3000}, or its first and its last one."""

DIFFUSE = "diffuse"
"""The name of a head that has no relation's."""


class EventKind(StrEnum):
    """The kinds of events that runs, seeds and the sides of a comparison are aligned by."""

    BOUNDARY = "boundary"
    """KL to a nested reference has its minimum, which ends a stage."""

    ONSET = "onset"
    """A score has a transition, up or down."""


@dataclasses.dataclass(frozen=True)
class Event:
    """An event of a run. Two events are the same where all fields are.

    Args:
        kind: of the event.
        probe: whose quantity shows it.
        quantity: of that probe.
        labels: axis -> label of its curve, as pairs; of several runs a head goes by its role.
        up: whether the curve rises.
        reference: of a boundary, the reference that is left.
        number: which of several events that agree in all other fields it is, from 1 on.
    """

    kind: EventKind
    probe: str = ""
    quantity: str = ""
    labels: tuple[tuple[str, Any], ...] = ()
    up: bool = True
    reference: str = ""
    number: int = 1

    @property
    def unnumbered(self) -> "Event":
        """The same event, whichever of several it is."""
        return dataclasses.replace(self, number=1)

    @property
    def plain(self) -> dict[str, Any]:
        """The fields that differ from their defaults, for JSON."""
        fields = dataclasses.asdict(self) | {"kind": str(self.kind), "labels": dict(self.labels)}
        return {name: value for name, value in fields.items() if value != DEFAULTS.get(name)}


DEFAULTS = {field.name: field.default for field in dataclasses.fields(Event)} | {"labels": {}}
"""Field of an event -> what it is where nothing is said."""


def labels_of(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the labels of a row of `find_onsets`, by axis: they stand between the quantity and the verdict.

    >>> labels_of({"probe": "Loss", "quantity": "cross_entropy", "layer": pd.NA, "position": 7, "verdict": "onset"})
    {'position': 7}
    """
    _, _, *axes = itertools.takewhile(lambda name: name != "verdict", row)
    return {name: row[name] for name in axes if not pd.isna(row[name])}


class Context(NamedTuple):
    """The context of the rows of a run's findings: its quantities, the thresholds, the causes."""

    quantities: Quantities
    criteria: StageCriteria = DEFAULT
    causes: Causes = MappingProxyType({})

    def quantity(self, row: Mapping[Any, Any]) -> Quantity:
        """Return the description of a row's quantity; one that was not declared goes by its probe and name."""
        known = self.quantities.get(row["probe"], {}).get(row["quantity"])
        return known or Quantity(f"{row['probe']} {row['quantity']}")
