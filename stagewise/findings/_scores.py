"""Which curves of a table are followed for onsets: those whose quantity declares that up, or down, is progress."""

import dataclasses
import functools
import re
import warnings
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from stagewise.event import labels_of
from stagewise.statistics import DEFAULT, StageCriteria
from stagewise.statistics._noise.residual import without_outliers
from stagewise.table import (
    NO_AXES,
    WEIGHTS,
    Quantities,
    Quantity,
    Role,
    check_steps,
    declared,
    rows_named,
    select,
    with_role,
)

COMPARED = Role.KL, Role.RESTRICTED_KL, Role.SHARE
"""Roles of what stages and their words are read from, beside scores that are followed."""

ALIKE = 0.02
"""Attention by which the peak of a head differs from its mass on a relation that is the same offset."""

BY_CONTENT = ("duplicate token", "induction")
"""Relations whose keys the tokens decide: a head that attends to them may attend to a position, where all lie there."""

MOSTLY, ENOUGH = 0.95, 0.2
"""Part of a head's mass on such a relation that its peak over offsets has if all lie there, of so much mass."""

UNIT = 0.1
"""Part of the range of a curve that is its unit, where it declares neither one nor both bounds of what it can be."""

PERPLEXITY = re.compile(r"ppl|perplexity", re.IGNORECASE)
"""Names of curves that are exponentials of a loss in nats."""

ROUNDINGS, TYPES = 2.0, (np.float16, np.float32, np.float64)
"""Changes of a curve by less than so many last digits of its numbers, which are of one of these types, are rounding."""


class Curve(NamedTuple):
    """A curve of a run: its probe, quantity and labels by axis, its rows in the order of the steps, what it is.

    A head's attention to a relation that the tokens decide also has the `offset` at which all its keys may lie; its
    largest attention over offsets has its offset.
    """

    probe: str
    quantity: str
    labels: dict[str, Any]
    rows: pd.DataFrame
    declared: Quantity
    offset: int | None = None

    @property
    def steps(self) -> np.ndarray:
        """Its checkpoints."""
        return self.rows["step"].to_numpy(float)

    @property
    def log(self) -> bool:
        """Whether its logarithm is searched: a perplexity is the exponential of a loss, and falls over decades."""
        values = self.rows["value"].to_numpy(float)
        return bool(PERPLEXITY.search(self.quantity) and values.min(initial=1) > 0)

    @property
    def values(self) -> np.ndarray:
        """The values that are searched."""
        values = self.rows["value"].to_numpy(float)
        return np.log(values) if self.log else values

    @property
    def until_finite(self) -> "Curve":
        """The curve up to where it ends in values that are not finite; the whole one, if others follow."""
        finite = np.flatnonzero(np.isfinite(self.values))
        ends = 0 < len(finite) < len(self.rows) and finite[-1] == len(finite) - 1
        return self._replace(rows=self.rows.iloc[: len(finite)]) if ends else self

    def thresholds(self, criteria: StageCriteria) -> StageCriteria:
        """Return the thresholds for this curve, of finite numbers; a tenth of its range stands for a missing unit.

        A change below the resolution of its type of number is none either.
        """
        if self.log or self.declared.unit or None not in self.declared.range:
            return criteria
        values = without_outliers(self.values[None])
        least = criteria.smallest * UNIT * float(np.ptp(values))
        return dataclasses.replace(criteria, smallest=max(least, ROUNDINGS * _resolution(values)))

    def within(self, level: float) -> float:
        """Return the possible value that is closest to a level of the values that are searched, as it was estimated."""
        lo, hi = self.declared.range
        level = float(np.exp(level)) if self.log else level
        return float(np.clip(level, -np.inf if lo is None else lo, np.inf if hi is None else hi))


def followed(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> list[Curve]:
    """Return the curves of a table to search for onsets, one for each combination of labels on their axes.

    A curve that another quantity of its probe replaces (`Quantity.unless`) is left out where the table has that one.
    Probes of which the table does not say what their numbers are are left out too, with a warning.

    Args:
        table: of one run, from `measure`.
        criteria: of them `named` counts, the attention from which a head at a fixed offset is followed.

    Raises:
        ValueError: a curve has several values at a step.
    """
    quantities, probes = quantities_of(table), set(table["probe"].unique())
    if unknown := sorted(probes - quantities.keys() - {WEIGHTS}):
        warnings.warn(
            f"the table does not say what the numbers of {', '.join(unknown)} are, as after pandas' `concat` of tables "
            "that differ in it: they are left out; `table.declare` tells it",
            stacklevel=3,
        )
    curves = list(_followed(table, quantities, probes, criteria))
    for curve in curves:
        check_steps(curve.rows, f"{curve.probe}.{curve.quantity}")
    return curves


def of_whole_model(table: pd.DataFrame) -> list[Curve]:
    """Return the curves of `followed` that are of the model as a whole, as its loss: without labels on any axis."""
    axes = [name for name in ("layer", "head") if name in table]
    return [curve for curve in followed(table[table[axes].isna().all(axis=1)]) if not curve.labels]


def has_scores(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> bool:
    """Whether the table has any curve to search for onsets."""
    return any(True for _ in _followed(table, quantities_of(table), set(table["probe"].unique()), criteria))


def _followed(
    table: pd.DataFrame, quantities: Quantities, probes: Collection[str], criteria: StageCriteria
) -> Iterator[Curve]:
    attention = with_role(table, Role.ATTENTION, Role.ATTENTION_ALONG)
    peak = with_role(table, Role.PEAK)[:1]
    for probe, by_name in quantities.items():
        if probe not in probes:
            continue
        for name, quantity in by_name.items():
            if quantity.progress is not None:
                curves = _curves(table, probe, name, quantity)
                if (probe, name) in attention:
                    yield from _at_one_offset(table, curves)
                else:
                    yield from _fixed_offsets(table, curves, criteria.named) if (probe, name) in peak else curves


def _at_one_offset(table: pd.DataFrame, curves: Iterable[Curve]) -> Iterator[Curve]:
    """Yield attention to relations, with the offset at which all the keys may lie that a head attends to.

    Where a stretch is repeated after equally many tokens in every sequence, an induction head cannot be told from one
    that attends to a position: nearly all of its mass on the relation may lie at one offset. That is asked of the
    checkpoint at which the curve is largest.
    """
    peaks, offsets, masses = (
        {frozenset(labels.items()): rows["value"].to_numpy(float) for labels, rows in _of_role(table, role)}
        for role in (Role.PEAK, Role.PEAK_OFFSET, Role.ATTENTION)
    )
    for curve in curves:
        head = frozenset((axis, label) for axis, label in curve.labels.items() if axis != "relation")
        peak, mass = peaks.get(head, np.empty(0)), masses.get(frozenset(curve.labels.items()), np.empty(0))
        known = head in offsets and len(peak) == len(mass) == len(curve.rows)
        if known and curve.labels.get("relation") in BY_CONTENT:
            values = curve.rows["value"].to_numpy(float)
            at = int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))
            if mass[at] >= ENOUGH and peak[at] >= MOSTLY * mass[at]:
                curve = curve._replace(offset=int(offsets[head][at].round()))
        yield curve


def _fixed_offsets(table: pd.DataFrame, curves: Iterable[Curve], named: float) -> Iterator[Curve]:
    """Yield the peaks over offsets of heads that once had as much attention there as a name takes, with the offset.

    Left out are heads whose peak a relation of the table names already, as "previous token" names offset 1.
    """
    offsets = {frozenset(labels.items()): rows for labels, rows in _of_role(table, Role.PEAK_OFFSET)}
    masses: dict[tuple[Any, Any], list[np.ndarray]] = {}
    for labels, rows in _of_role(table, Role.ATTENTION):
        masses.setdefault((labels["layer"], labels["head"]), []).append(rows["value"].to_numpy(float))
    for curve in curves:
        values = curve.rows["value"].to_numpy(float)
        high = values >= named
        known = masses.get((curve.labels["layer"], curve.labels["head"]), [])
        if not high.any() or any(
            len(mass) == len(high) and np.abs(mass - values)[high].max() < ALIKE for mass in known
        ):
            continue
        at = offsets.get(frozenset(curve.labels.items()))
        yield curve if at is None else curve._replace(offset=int(at["value"].to_numpy(float)[high].round()[-1]))


def quantities_of(table: pd.DataFrame) -> Quantities:
    """Return the quantities that a table declares; for probes that it declares nothing of, the library's."""
    declarations = declared(table)
    complete = "probe" in table and set(table["probe"].unique()) <= declarations.keys()
    return declarations if complete else {**_library(), **declarations}


def evidence(table: pd.DataFrame) -> list[str]:
    """List the quantities of a table that stages are found in, as "Mine.score", whatever else it holds."""
    quantities, names = quantities_of(table), list[str]()
    compared = {probe for probe, _ in with_role(table, *COMPARED)}
    beside = with_role(table, Role.PEAK_OFFSET, Role.UNIFORM_ATTENTION)
    for probe, name in table[["probe", "quantity"]].drop_duplicates().itertuples(index=False):
        others = quantities.get(probe, {})
        read = (name in others and others[name].progress) or name in {one.unless for one in others.values()}
        if probe in compared or read or (probe, name) in beside:
            names.append(f"{probe}.{name}")
    return names


def rows_of_evidence(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that stages are found in."""
    return rows_named(table, evidence(table))


def curves_of(table: pd.DataFrame, onsets: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the curve that each row of `find_onsets` is about, in the order of its steps.

    The table is split once a quantity, not searched once a curve: the time is linear in their number.

    Raises:
        ValueError: the table lacks one of them.
    """
    pairs = onsets[["probe", "quantity"]].drop_duplicates().itertuples(index=False)
    curves = {
        (probe, name, frozenset(labels.items())): rows
        for probe, name in pairs
        for labels, rows in _split(table, probe, name)
    }
    chosen = []
    for row in onsets.to_dict("records"):
        labels = labels_of(row)
        if (name := (row["probe"], row["quantity"], frozenset(labels.items()))) not in curves:
            raise ValueError(f"the table has no curve of {row['probe']}.{row['quantity']} {labels}")
        chosen.append(curves[name])
    return chosen


def axes_of(rows: pd.DataFrame) -> list[str]:
    """List the columns that distinguish the curves of one quantity."""
    return [str(name) for name in rows if name not in NO_AXES and rows[name].notna().any()]


def _resolution(values: np.ndarray) -> float:
    """Return the last digit of the largest of some numbers, in the smallest type that holds them all.

    >>> [_resolution(np.array(values)) for values in ([0.5, 1], [0.1, 1])]
    [0.0009765625, 2.220446049250313e-16]
    """
    with np.errstate(over="ignore"):
        kind = next(kind for kind in TYPES if (values.astype(kind) == values).all())
    return float(np.finfo(kind).eps) * float(np.abs(values).max())


@functools.cache
def _library() -> Quantities:
    from stagewise import probes
    from stagewise.probe import AbstractProbe

    classes = {name: cls for name, cls in vars(probes).items() if isinstance(cls, type)}
    return {name: dict(cls.quantities) for name, cls in classes.items() if issubclass(cls, AbstractProbe)}


def _curves(table: pd.DataFrame, probe: str, name: str, quantity: Quantity) -> Iterator[Curve]:
    instead = {frozenset(labels.items()) for labels, _ in _split(table, probe, quantity.unless)}
    for labels, rows in _split(table, probe, name):
        if frozenset(labels.items()) not in instead:
            yield Curve(probe, name, labels, rows, quantity)


def _of_role(table: pd.DataFrame, role: Role) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    for probe, name in with_role(table, role)[:1]:
        yield from _split(table, probe, name)


def _split(table: pd.DataFrame, probe: str, quantity: str) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    chosen = table[(table["probe"] == probe) & (table["quantity"] == quantity)]
    if chosen.empty:
        return
    rows = select(chosen, probe, quantity)
    axes = axes_of(rows)
    groups: Iterable[tuple[Any, pd.DataFrame]] = [((), rows)]
    for labels, curve in rows.groupby(axes, sort=False, dropna=False) if axes else groups:
        yield {name: label for name, label in zip(axes, labels, strict=True) if not pd.isna(label)}, curve
