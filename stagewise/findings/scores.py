"""Which curves of a table are followed for onsets: those whose quantity declares that up, or down, is progress."""

import dataclasses
import functools
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

import stagewise
from stagewise.criteria import DEFAULT, StageCriteria
from stagewise.event import labels_of
from stagewise.findings._frames import COMPARED, Rows, by_role, digest, resamples_of
from stagewise.statistics import QUANTILE, binomial_errors, running_median
from stagewise.table import (
    LOGGED,
    NO_AXES,
    WEIGHTS,
    Quantities,
    Quantity,
    Role,
    Roles,
    check_steps,
    declared,
    roles_in,
    rows_named,
    select,
)

Values = dict[frozenset[tuple[str, Any]], np.ndarray]
"""Labels -> the values of a curve."""

ALIKE = 0.02
"""Attention by which the peak of a head differs from its mass on a relation that is the same offset."""

BY_CONTENT = ("duplicate token", "induction")
"""Relations whose keys the tokens decide: a head that attends to them may attend to a position, where all lie there."""

MOSTLY, ENOUGH = 0.95, 0.2
"""Part of a head's mass on such a relation that its peak over offsets has if all lie there, of so much mass."""

UNIT, LEAST_UNIT, SETTLED = 0.5, 0.1, 0.1
"""Part of the range of a curve that is its unit, where it declares neither one nor both bounds of what it can be: of
its range from a tenth of the checkpoints on, before which a loss falls from chance, and at least of its whole range.
"""

KEPT = 2.0
"""Times that the least score of a head counts as its range: a head that keeps all but a fifth of it only drifts."""

LOSSES = {"loss", "nll", "ppl", "perplexity"}
"""Words in the names of losses."""

PERPLEXITY = re.compile(r"(?<![a-z])ppl|perplexity", re.IGNORECASE)
"""Names of curves that are exponentials of a loss in nats."""

SMOOTHED = 5
"""Checkpoints of the running median whose range is that of a curve: outliers of two are no part of it."""

LEAST_ERROR = 0.3
"""Part of a curve's median error that each value has at least."""

ROUNDINGS, TYPES = 2.0, (np.float16, np.float32, np.float64)
"""Changes of a curve by less than so many last digits of its numbers, which are of one of these types, are rounding."""

GRAINED, COUNTS, SAME = 6, 3, 1e-12
"""A curve of so many differences, all multiples of one, counts: a change by less than so many of it is none. Numbers
that differ by less than this part of the largest are one. Row
"50 fixed questions, learned one by one": onsets as logged at Pythia's checkpoints in .73 without it, .40 with it."""


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
    """A curve of a run up to the values that are not finite; a head's keys may all lie at one `offset`. Scores of heads
    that declare no unit share one: `family` is the largest range, or level, among them.
    """

    probe: str
    quantity: str
    labels: dict[str, Any]
    rows: pd.DataFrame
    declared: Quantity
    common: StageCriteria = DEFAULT
    offset: int | None = None
    lost: tuple[float, float] | None = None
    family: float = 0.0

    @functools.cached_property
    def steps(self) -> np.ndarray:
        """Its checkpoints."""
        return self.rows["step"].to_numpy(float)

    @functools.cached_property
    def raw(self) -> np.ndarray:
        """The values that were measured."""
        return self.rows["value"].to_numpy(float)

    @functools.cached_property
    def log(self) -> bool:
        """Whether its logarithm is searched: a perplexity is the exponential of a loss, and falls over decades."""
        return bool(PERPLEXITY.search(self.quantity) and self.raw.min(initial=1) > 0)

    @functools.cached_property
    def values(self) -> np.ndarray:
        """The values that are searched."""
        return np.log(self.raw) if self.log else self.raw

    @property
    def resamples(self) -> np.ndarray | None:
        """The values in every resample of the probe batch, [resample, step]; None where there are none."""
        resamples = resamples_of(self.rows)
        return None if resamples is None else resamples.astype(float)

    @functools.cached_property
    def is_finite(self) -> bool:
        """Whether all its values are."""
        return bool(np.isfinite(self.values).all())

    @functools.cached_property
    def errors(self) -> np.ndarray | None:
        """The standard errors of the values of a logged curve that a log gives with all of them, or that shares of so
        many answers have; None without.
        """
        rows = self.rows
        if self.probe != LOGGED or self.log:
            return None
        if "lo" not in rows or rows[["lo", "hi"]].isna().any(axis=None):
            number = _answers(self.raw)
            return binomial_errors(self.raw, number) if number else None
        errors = (rows["hi"] - rows["lo"]).to_numpy(float) / (2 * QUANTILE)
        some = errors[errors > 0]
        # No answer wrong has an error of 0 in many a log, which is none.
        return np.maximum(errors, LEAST_ERROR * np.median(some)) if len(some) else None

    @property
    def span(self) -> float:
        """The largest change that the quantity can have."""
        lo, hi = self.declared.range
        return np.inf if self.log or lo is None or hi is None else float(hi - lo)

    @functools.cached_property
    def can_be_judged(self) -> bool:
        """Whether there are enough checkpoints, fewer where errors are given, and all values are finite."""
        fewest = self.common.fewest if self.errors is None else self.common.fewest_with_errors
        return len(self.rows) >= fewest and self.is_finite

    @functools.cached_property
    def criteria(self) -> StageCriteria:
        """The thresholds for this curve: a missing unit is a tenth of its range; its type's resolution is the least."""
        if self.log or self.declared.unit or None not in self.declared.range or not self.is_finite:
            return self.common
        values = running_median(self.values, SMOOTHED)
        late, whole = (float(np.ptp(part)) for part in (values[int(SETTLED * len(values)) :], values))
        level = abs(float(np.median(values))) if words_of(self.quantity) & LOSSES else 0.0
        least = self.common.smallest * max(UNIT * late, LEAST_UNIT * max(whole, level), self.family)
        smallest = max(least, ROUNDINGS * _resolution(values), COUNTS * _grain(self.values))
        return dataclasses.replace(self.common, smallest=smallest)

    def learned(self, level: float) -> float:
        """Return a level, or that of nothing where it lies on the side of it against progress."""
        if (nothing := self.declared.nothing) is None:
            return level
        return float(max(level, nothing) if self.declared.progress == "up" else min(level, nothing))

    def within(self, level: float) -> float:
        """Return the value of the curve's range that is closest to a level of the values that are searched."""
        seen = self.raw[np.isfinite(self.raw)]
        return float(np.clip(np.exp(level) if self.log else level, seen.min(), seen.max()))


@dataclasses.dataclass(frozen=True, eq=False)
class Evidence:
    """What stages are found in: rows of a table, the quantities of these, those with a role, and the curves that are
    followed for onsets, in the order in which the table declares them.
    """

    rows: pd.DataFrame
    quantities: Quantities
    of_roles: Rows
    curves: list[Curve]

    @property
    def digest(self) -> str:
        """Identifies the rows."""
        return digest(self.rows)

    @property
    def whole(self) -> list[Curve]:
        """The curves of the model as a whole."""
        return of_whole_model(self.curves)


def evidence_in(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> Evidence:
    """Return what stages are found in, of a table that may hold more."""
    rows = rows_of_evidence(table)
    roles, quantities = roles_in(rows), quantities_of(rows)
    curves = _checked_curves(rows, quantities, roles, criteria)
    return Evidence(rows, quantities, by_role(rows, roles), curves)


def followed(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> list[Curve]:
    """Return the curves of a table to search for onsets, one for each combination of labels on their axes. A curve that
    another quantity of its probe replaces (`Quantity.unless`) is left out where the table has that one. Probes of which
    the table does not say what their numbers are are left out too, with a warning.
    """
    return _checked_curves(table, quantities_of(table), roles_in(table), criteria)


def _checked_curves(table: pd.DataFrame, quantities: Quantities, roles: Roles, criteria: StageCriteria) -> list[Curve]:
    """Return the curves that are followed, each with one value a step, up to where it is finite."""
    if unknown := sorted(set(table["probe"].unique()) - quantities.keys() - {WEIGHTS}):
        warnings.warn(
            f"the table does not say what the numbers of {', '.join(unknown)} are, as after pandas' `concat` of tables "
            "that differ in it: they are left out; `table.declare` tells it",
            stacklevel=4,
        )
    curves = list(_followed(table, quantities, roles, criteria))
    for curve in curves:
        check_steps(curve.rows, f"{curve.probe}.{curve.quantity}")
    return [_until_finite(curve) for curve in curves]


def words_of(name: str) -> set[str]:
    """Return the words in the name of a curve.

    >>> sorted(words_of("held_out/trainLoss"))
    ['heldout', 'loss', 'train']
    """
    parts = re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()
    return set(re.findall(r"[a-z0-9]+", re.sub(r"\b(held|hold)[\W_]out", "heldout", parts)))


def of_whole_model(curves: Iterable[Curve]) -> list[Curve]:
    """Return the curves of the model as a whole, as its loss: without labels on any axis."""
    return [curve for curve in curves if not curve.labels]


def has_scores(table: pd.DataFrame, criteria: StageCriteria = DEFAULT) -> bool:
    """Whether the table has any curve to search for onsets."""
    return any(True for _ in _followed(table, quantities_of(table), roles_in(table), criteria))


def _followed(table: pd.DataFrame, quantities: Quantities, roles: Roles, criteria: StageCriteria) -> Iterator[Curve]:
    probes, values = set(table["probe"].unique()), functools.cache(lambda role: _values(table, roles[role]))
    for probe, by_name in quantities.items():
        for name, quantity in by_name.items() if probe in probes else ():
            if quantity.progress is not None:
                curves = _curves(table, probe, name, quantity, criteria)
                if (probe, name) in roles[Role.ATTENTION] + roles[Role.ATTENTION_ALONG]:
                    yield from _at_one_offset(curves, *map(values, (Role.PEAK, Role.PEAK_OFFSET, Role.ATTENTION)))
                elif (probe, name) in roles[Role.PEAK][:1]:
                    yield from _fixed_offsets(curves, *map(values, (Role.PEAK_OFFSET, Role.ATTENTION)))
                else:
                    yield from curves


def _until_finite(curve: Curve) -> Curve:
    """Return a curve up to where it ends in values that are not finite; the whole one, if others follow."""
    finite, steps = np.flatnonzero(np.isfinite(curve.values)), curve.steps
    number = len(finite)
    if not 0 < number < len(steps) or finite[-1] != number - 1:
        return curve
    return dataclasses.replace(curve, rows=curve.rows.iloc[:number], lost=(float(steps[number]), float(steps[-1])))


def _at_one_offset(curves: Iterable[Curve], peaks: Values, offsets: Values, masses: Values) -> Iterator[Curve]:
    """Yield attention to relations, with the offset at which nearly all keys of a head lie where it attends most: then
    an induction head cannot be told from one that attends to a position.
    """
    for curve in curves:
        head = frozenset((axis, label) for axis, label in curve.labels.items() if axis != "relation")
        peak, mass = peaks.get(head, np.empty(0)), masses.get(frozenset(curve.labels.items()), np.empty(0))
        known = head in offsets and len(peak) == len(mass) == len(curve.rows)
        if known and curve.labels.get("relation") in BY_CONTENT:
            at = int(np.argmax(np.where(np.isfinite(curve.raw), curve.raw, -np.inf)))
            if mass[at] >= ENOUGH and peak[at] >= MOSTLY * mass[at]:
                curve = dataclasses.replace(curve, offset=int(offsets[head][at].round()))
        yield curve


def _fixed_offsets(curves: Iterable[Curve], offsets: Values, masses: Values) -> Iterator[Curve]:
    """Yield peaks over offsets that once had the attention a name takes, and that no relation names already."""
    for curve in curves:
        high, head = curve.raw >= curve.common.named, frozenset(curve.labels.items())
        known = [mass for labels, mass in masses.items() if head <= labels and len(mass) == len(high)]
        if high.any() and not any(np.abs(mass - curve.raw)[high].max() < ALIKE for mass in known):
            at = int(offsets[head][high].round()[-1]) if head in offsets else None
            yield dataclasses.replace(curve, offset=at)


def quantities_of(table: pd.DataFrame) -> Quantities:
    """Return the quantities that a table declares; for probes that it declares nothing of, the library's."""
    declarations = declared(table)
    complete = "probe" in table and set(table["probe"].unique()) <= declarations.keys()
    return declarations if complete else {**_library(), **declarations}


def evidence(table: pd.DataFrame) -> list[str]:
    """List the quantities of a table that stages are found in, as "Mine.score", whatever else it holds."""
    quantities, roles, names = quantities_of(table), roles_in(table), list[str]()
    compared = {probe for role in COMPARED for probe, _ in roles[role]}
    beside = roles[Role.PEAK_OFFSET] + roles[Role.UNIFORM_ATTENTION]
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
    """Return the curve of each row of `find_onsets`; the table is split once a quantity, in linear time."""
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
    """Return the last digit of the largest of some numbers, in the smallest type that holds them all."""
    with np.errstate(over="ignore"):
        kind = next(kind for kind in TYPES if (values.astype(kind) == values).all())
    return float(np.finfo(kind).eps) * float(np.abs(values).max())


def _answers(values: np.ndarray) -> int:
    """Return of how many answers all values are shares, 0 where that is not known, as of numbers that are rounded, or
    means of such ones.
    """
    if not (np.isfinite(values).all() and values.min(initial=0) >= 0 and values.max(initial=0) <= 1):
        return 0
    grain = _grain(values)
    number = round(1 / grain) if grain else 0
    shares = number * values
    rounded = np.isclose(values * 10**4, (values * 10**4).round(), rtol=0, atol=1e-6).all() or number % 100 == 0
    return number if number > 1 and not rounded and np.allclose(shares, shares.round(), rtol=0, atol=1e-3) else 0


def _grain(values: np.ndarray) -> float:
    """Return the number that all differences of some values are multiples of, as one answer of many; 0 without one."""
    gaps = np.diff(np.unique(values))
    gaps = gaps[gaps > SAME * np.abs(values).max()]
    if len(gaps) < GRAINED:
        return 0.0
    multiples = gaps / gaps.min()
    return float(gaps.min()) if np.allclose(multiples, multiples.round(), rtol=0, atol=0.01) else 0.0


@functools.cache
def _library() -> Quantities:
    classes = {name: cls for name, cls in vars(stagewise.probes).items() if isinstance(cls, type)}
    return {name: dict(cls.quantities) for name, cls in classes.items() if hasattr(cls, "quantities")}


def _curves(table: pd.DataFrame, probe: str, name: str, quantity: Quantity, criteria: StageCriteria) -> Iterator[Curve]:
    instead = {frozenset(labels.items()) for labels, _ in _split(table, probe, quantity.unless)}
    chosen = [each for each in _split(table, probe, name) if frozenset(each[0].items()) not in instead]
    of_heads = [rows["value"].to_numpy(float) for labels, rows in chosen if "head" in labels]
    family = max((_scale(each) for each in of_heads if np.isfinite(each).all()), default=0.0)
    for labels, rows in chosen:
        yield Curve(probe, name, labels, rows, quantity, criteria, family=family if "head" in labels else 0.0)


def _scale(values: np.ndarray) -> float:
    """Return the range of a head's scores, or their level; of what it always has twice that."""
    return max(float(np.ptp(values)), abs(float(np.median(values))), KEPT * float(np.abs(values).min()))


def _values(table: pd.DataFrame, pairs: Sequence[tuple[str, str]]) -> Values:
    """Return the curves of the first of some quantities by their labels."""
    of_role = (_split(table, *pair) for pair in pairs[:1])
    return {frozenset(labels.items()): rows["value"].to_numpy(float) for of in of_role for labels, rows in of}


def _split(table: pd.DataFrame, probe: str, quantity: str) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    chosen = table[(table["probe"] == probe) & (table["quantity"] == quantity)]
    if chosen.empty:
        return
    rows = select(chosen, probe, quantity)
    yield from by_labels(rows, axes_of(rows))


def by_labels(rows: pd.DataFrame, axes: list[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield the rows of each combination of labels on some axes, behind the labels that there are."""
    alone: Iterable[tuple[Any, pd.DataFrame]] = [((), rows)]
    for labels, curve in rows.groupby(axes, sort=False, dropna=False) if axes else alone:
        yield {axis: label for axis, label in zip(axes, labels, strict=True) if not pd.isna(label)}, curve
