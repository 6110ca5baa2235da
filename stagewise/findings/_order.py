"""What emerged in which order: the weights, the attention, the loss and the accuracy, each when it came half-way."""

from collections.abc import Iterator

import pandas as pd

from stagewise.event import HalfWay, Kind
from stagewise.findings._frames import rows_of
from stagewise.statistics import DEFAULT, StageCriteria, emergence_interval
from stagewise.statistics._crossings import Rise, rise
from stagewise.table import Role, head_label, with_role

ROLES: dict[Kind, Role] = {
    "weights": Role.ALIGNMENT,
    "attention": Role.ATTENTION_ALONG,
    "loss": Role.LOSS,
    "accuracy": Role.ACCURACY,
}
"""Kind of event -> the role of the quantity that shows it."""


def curves(table: pd.DataFrame, kind: Kind) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the name and the rows of every curve of a kind: one a head and a relation or feature, one of loss.

    None where the table has no rows of its role.
    """
    if not with_role(table, ROLES[kind]):
        return
    rows = rows_of(table, ROLES[kind])
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
    rows = rows_of(table, Role.ACCURACY)
    return rise(rows["step"].to_numpy(), rows["value"].to_numpy(), criteria.growth)
