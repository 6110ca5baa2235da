"""Descriptions of quantities, which a table carries: label, unit, range and direction of progress."""

import dataclasses
import json
from typing import Literal

import pandas as pd


@dataclasses.dataclass(frozen=True)
class Quantity:
    """Description of a quantity; onsets, axes, captions and the report read it.

    Args:
        label: its name in figures, as in "attention mass".
        unit: as in "nats" or "tokens"; empty for a share or a score.
        range: its smallest and largest possible value, None where there is no bound.
        progress: the direction of progress, "up" or "down", in which onsets are detected; None for no onsets.
        onset: name of its onset, as in "copying begins"; empty takes the label with "rises" or "falls".
        unless: another quantity of the same probe with the same meaning, which is followed instead where the table has
            it on the same axes.

    Raises:
        ValueError: no label, bounds in the wrong order, or a direction other than up and down.

    >>> Quantity("loss", "nats", (0, None), progress="down").axis
    'loss, nats'
    """

    label: str
    unit: str = ""
    range: tuple[int | float | None, int | float | None] = (None, None)
    progress: Literal["up", "down"] | None = None
    onset: str = ""
    unless: str = ""

    def __post_init__(self) -> None:
        if not self.label:
            raise ValueError("a quantity needs a label, got an empty one")
        if self.progress not in ("up", "down", None):
            raise ValueError(f'progress is "up", "down" or None, got {self.progress!r}')
        lo, hi = self.range
        if lo is not None and hi is not None and not lo < hi:
            raise ValueError(f"the range of {self.label!r} goes from its smallest to its largest value, got {lo}, {hi}")

    @property
    def axis(self) -> str:
        """The label with its unit, as an axis shows it."""
        return f"{self.label}, {self.unit}" if self.unit else self.label


Quantities = dict[str, dict[str, Quantity]]
"""Probe -> quantity -> its description."""

DECLARED = "quantities"
"""Key of a table's `attrs` that holds the `Quantities` of its probes, in memory and in Parquet. As one JSON text,
since pandas copies attrs deeply at every step, and a dictionary of dictionaries takes milliseconds each time."""


def declare(table: pd.DataFrame, quantities: Quantities) -> None:
    """Add descriptions of quantities to a table, beside those that it has."""
    plain = {
        probe: {name: dataclasses.asdict(one) for name, one in by_name.items()} for probe, by_name in quantities.items()
    }
    table.attrs[DECLARED] = json.dumps({**json.loads(table.attrs.get(DECLARED, "{}")), **plain})


def declared(table: pd.DataFrame) -> Quantities:
    """Return the descriptions of a table's quantities; none for one made by hand.

    >>> table = pd.DataFrame()
    >>> declare(table, {"Loss": {"cross_entropy": Quantity("loss", "nats")}})
    >>> declared(table)["Loss"]["cross_entropy"].unit
    'nats'
    """
    return {
        probe: {name: Quantity(**{**one, "range": tuple(one["range"])}) for name, one in by_name.items()}
        for probe, by_name in json.loads(table.attrs.get(DECLARED, "{}")).items()
    }
