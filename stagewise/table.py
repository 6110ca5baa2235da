"""The tidy table: a row for each value; `run, step, probe, quantity`, a nullable column an axis, `value, lo, hi, n`.

The glossary of axes and columns is that of the package. A map over queries and keys is one row, its cells an
array in the column `map`, which `maps_in` reads: so maps go with their rows into selections, concatenations and files,
where a companion file or an attribute would be lost, and a file is read without them where none is needed.
"""

import collections
import dataclasses
import functools
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal

import numpy as np
import pandas as pd

from stagewise.plain_text import plain_name

KEYS = ["run", "step", "probe", "quantity"]
NUMBERS = ["value", "lo", "hi", "n"]
ARRAYS = ["resamples", "map"]
"""Columns of arrays: the values in resamples of the batch, and a map's cells, query after query."""

LOGGED = "Logged"
"""The name in the place of a probe's, for curves of a log."""

VALUES = [*NUMBERS, *ARRAYS]
NO_AXES = {*KEYS, *VALUES, "tokens", "seed", "nested"}
"""Columns that are no axes: they do not tell the curves of one run apart."""

TEXT = "str"
"""Type of an axis of text, which may be missing. A mask of pandas' "string", as `table["kind"] == "zero"`, cannot be
combined with that of an axis of whole numbers."""

_WHOLE = {
    *("tokens", "layer", "head", "offset", "position", "query", "key", "context"),
    *("cluster", "n_clusters", "row", "token", "seed", "nested", "moving", "event"),
}
"""Axes whose labels are whole numbers; the others are text."""

_COUNTED = {"batch", "time", "layer", "head"}
"""Axes whose entries are counted from 0 where nothing labels them."""


class Role(StrEnum):
    """The role of a quantity for findings, which ask a table for it and know no probe by name."""

    LOSS = "loss"
    """Cross-entropy of the scored predictions, nats: one number a checkpoint."""

    SQUARED_ERROR = "squared error"
    """The loss of a regression: one number a checkpoint."""

    LOSS_BY_POSITION = "loss by position"
    """Cross-entropy by position, nats."""

    LOSS_BY_CLASS = "loss by class"
    """Cross-entropy of classes of the predictions, nats: a transition of these alone is hidden from the mean."""

    ACCURACY = "accuracy"
    """Share of the scored predictions that are right: one number a checkpoint."""

    KL = "KL to references"
    """KL(reference ‖ model) by reference, nats: stages end at its turning points."""

    RESTRICTED_KL = "KL to restricted contexts"
    """KL of the model to itself by the context that it is restricted to, nats."""

    ATTENTION = "attention"
    """Mass on the keys of a relation from the scored queries, by layer, head and relation."""

    ATTENTION_ALONG = "attention along"
    """The same from all queries that have keys in the relation."""

    UNIFORM_ATTENTION = "uniform attention"
    """The same of attention that is even over all keys up to the query, by relation."""

    SHARE = "share"
    """Share of a relation in a head's attention, by layer, head and relation: heads are named after the largest."""

    PATTERN = "attention pattern"
    """Masses that describe a head's pattern, by layer, head and feature: heads of one kind have like ones."""

    ATTENTION_BY_OFFSET = "attention by offset"
    """Mass by layer, head and offset from query to key."""

    PEAK = "peak"
    """The largest of these, by layer and head."""

    PEAK_OFFSET = "peak offset"
    """The offset at which that is, by layer and head."""

    ALIGNMENT = "alignment of values"
    """Cosine of what a head's weights write with a feature, by layer, head and feature."""

    BEHAVIOUR = "behaviour"
    """Logit difference of right and wrong answers, nats: one number a checkpoint."""

    EFFECT = "effect on the behaviour"
    """What a head, patched from other prompts, is worth to it, by layer and head; nats."""

    DIRECT_EFFECT = "direct effect on the behaviour"
    """The part of that which the head writes itself."""

    ABLATED = "ablated effect on the behaviour"
    """The same of a head that is ablated, by kind."""

    COPYING = "copying"
    """How much a head's weights raise the logit of the token that it attends to, in [-1, 1], by layer and head."""


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
        weights: whether it is read from weights alone: then its onsets join transitions, and are none of their own.
        nothing: the value at which there is none of it, as 0 of a gain: changes on the side against progress are none.
        role: what it is to findings, a value of `Role` as "loss"; empty for a number that none asks for.

    Raises:
        ValueError: no label, bounds in the wrong order, a direction other than up and down, or an unknown role.

    >>> Quantity("loss", "nats", (0, None), progress="down").axis
    'loss, nats'
    """

    label: str
    unit: str = ""
    range: tuple[int | float | None, int | float | None] = (None, None)
    progress: Literal["up", "down"] | None = None
    onset: str = ""
    unless: str = ""
    weights: bool = False
    role: str = ""
    nothing: int | float | None = None

    def __post_init__(self) -> None:
        if not self.label:
            raise ValueError("a quantity needs a label, got an empty one")
        if self.role not in {"", *Role}:
            raise ValueError(f"the role of {self.label!r} is one of {', '.join(Role)}, or empty; got {self.role!r}")
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

Roles = Mapping[str, list[tuple[str, str]]]
"""Role -> the quantities of a table that have it, as their probe and their name."""

ROLES = {
    ("Loss", "cross_entropy"): Role.LOSS,
    ("Loss", "squared_error"): Role.SQUARED_ERROR,
    ("LossByPosition", "cross_entropy"): Role.LOSS_BY_POSITION,
    ("LossByToken", "cross_entropy"): Role.LOSS_BY_CLASS,
    ("Accuracy", "accuracy"): Role.ACCURACY,
    ("KLToReference", "kl"): Role.KL,
    ("RestrictedContextKL", "kl"): Role.RESTRICTED_KL,
    ("AttentionTo", "mass"): Role.ATTENTION,
    ("AttentionTo", "along"): Role.ATTENTION_ALONG,
    ("AttentionTo", "uniform"): Role.UNIFORM_ATTENTION,
    ("HeadSpecialisation", "share"): Role.SHARE,
    ("PatternClusters", "profile"): Role.PATTERN,
    ("OffsetProfile", "mass"): Role.ATTENTION_BY_OFFSET,
    ("OffsetProfile", "peak"): Role.PEAK,
    ("OffsetProfile", "peak_offset"): Role.PEAK_OFFSET,
    ("ValueAlignment", "cosine"): Role.ALIGNMENT,
    ("BehaviourCurve", "difference"): Role.BEHAVIOUR,
    ("BehaviourHeads", "effect"): Role.EFFECT,
    ("BehaviourHeads", "direct"): Role.DIRECT_EFFECT,
    ("BehaviourHeads", "estimated_effect"): Role.EFFECT,
    ("BehaviourHeads", "ablated"): Role.ABLATED,
    ("OVCopying", "copying"): Role.COPYING,
}
"""Roles of the library's quantities, for tables that do not declare them: made by hand, or measured before roles."""

WEIGHTS = "Weights"
"""In the place of a probe, in the row of a checkpoint whose weights are not finite."""

DECLARED = "quantities"
"""Key of a table's `attrs` that holds its `Quantities`, in memory and in Parquet: as one JSON text, since pandas copies
attrs deeply at every step, and a dictionary of dictionaries takes milliseconds each time."""


def declare(table: pd.DataFrame, quantities: Quantities) -> None:
    """Add descriptions of quantities to a table, beside those that it has."""
    known: dict[str, dict[str, Any]] = json.loads(table.attrs.get(DECLARED, "{}"))
    for probe, by_name in plain_quantities(quantities).items():
        known.setdefault(probe, {}).update(by_name)
    table.attrs[DECLARED] = json.dumps(known)


def plain_quantities(quantities: Quantities) -> dict[str, dict[str, Any]]:
    """Return descriptions of quantities as plain data, for JSON; without a role, or a nothing, where there is none:
    so a table of an older version has the digest that it had.
    """
    return {probe: {name: _fields(one) for name, one in of.items()} for probe, of in quantities.items()}


LATER = ("role", "nothing")
"""Fields that tables of older versions lack."""


def _fields(one: Quantity) -> dict[str, Any]:
    return {
        name: value for name, value in dataclasses.asdict(one).items() if name not in LATER or value not in ("", None)
    }


def quantities_from(plain: Mapping[str, Mapping[str, Any]]) -> Quantities:
    """Return the descriptions that `plain_quantities` was given."""
    return {
        plain_name(probe): {plain_name(name): _quantity(one) for name, one in by_name.items()}
        for probe, by_name in plain.items()
    }


def declared(table: pd.DataFrame) -> Quantities:
    """Return the descriptions of a table's quantities; none for one made by hand.

    >>> table = pd.DataFrame()
    >>> declare(table, {"Loss": {"cross_entropy": Quantity("loss", "nats")}})
    >>> declared(table)["Loss"]["cross_entropy"].unit
    'nats'
    """
    return quantities_from(json.loads(table.attrs.get(DECLARED, "{}")))


def with_role(table: pd.DataFrame, *roles: str) -> list[tuple[str, str]]:
    """List the quantities that a table has rows of and that have one of these roles, as their probe and their name.

    They come in the order of the roles, the library's own before others. Roles are those that the table declares, of
    the library's quantities also where it declares none.

    >>> with_role(pd.DataFrame({"probe": ["Accuracy", "Loss"], "quantity": ["accuracy", "excess"]}), "loss", "accuracy")
    [('Accuracy', 'accuracy')]
    """
    known = roles_in(table)
    return [pair for role in roles for pair in known[role]]


def roles_in(table: pd.DataFrame) -> Roles:
    """Return the pairs of `with_role` by role, of any: an empty list where there are none."""
    known = _roles(table.attrs.get(DECLARED, "{}"))
    here = set(table[["probe", "quantity"]].drop_duplicates().itertuples(index=False, name=None))
    of_role = collections.defaultdict[str, list[tuple[str, str]]](list)
    for pair in (pair for pair in known if pair in here):
        of_role[known[pair]].append(pair)
    return of_role


@functools.lru_cache
def _roles(declarations: str) -> dict[tuple[str, str], str]:
    declares = quantities_from(json.loads(declarations))
    told = {(probe, name): one.role for probe, of in declares.items() for name, one in of.items() if one.role}
    return {**ROLES, **told}


def _quantity(fields: Mapping[str, Any]) -> Quantity:
    words = {name: plain_name(value) for name, value in fields.items() if isinstance(value, str)}
    return Quantity(**{**fields, **words, "range": tuple(fields["range"])})


Columns = Mapping[str, Any]
"""Rows by column: `value`, and others as long as it, or a single entry for all rows."""


@dataclasses.dataclass(frozen=True, eq=False)
class LabelledArray:
    """An array with named axes and a quantity, which becomes rows of a table.

    Args:
        axes: names, separated by spaces, as in "layer head"; empty for a single number.
        values: an array with these axes.
        quantity: name of the values, as in "mass" or "kl".
        labels: names of the entries of each axis; layers and heads count from 0 if not given.

    Raises:
        ValueError: axes or labels do not fit the values.

    >>> LabelledArray("head relation", np.eye(2), "mass", {"relation": ["a", "b"]}).frame()["value"].tolist()
    [1.0, 0.0, 0.0, 1.0]
    """

    axes: str
    values: np.ndarray
    quantity: str
    labels: Mapping[str, Sequence[str | int]] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        check_axes(self.axes, self.values.shape, self.quantity, self.labels)

    def columns(self) -> Columns:
        """Return a row a value, as columns: one an axis, `quantity` and `value`."""
        names = self.axes.split()
        labels = [self.labels.get(name, range(size)) for name, size in zip(names, self.values.shape, strict=True)]
        entries = zip(*itertools.product(*labels), strict=True) if self.values.size else ([] for _ in names)
        return {**dict(zip(names, entries, strict=False)), "quantity": self.quantity, "value": self.values.reshape(-1)}

    def frame(self) -> pd.DataFrame:
        """Return a row a value: a column an axis, `quantity` and `value`."""
        return pd.DataFrame(self.columns())


def check_axes(axes: str, shape: Sequence[int], quantity: str, labels: Mapping[str, Sequence[str | int]]) -> None:
    """Refuse names of axes that do not fit a shape, and axes without labels, or with too few or too many."""
    names = axes.split()
    if len(names) != len(shape):
        raise ValueError(f"axes {axes!r} do not fit values of shape {tuple(shape)}, of {quantity!r}")
    check_labels(names, quantity, labels)
    for name, size in zip(names, shape, strict=True):
        if len(labels.get(name, range(size))) != size:
            raise ValueError(f"axis {name!r} of {quantity!r} has {size} entries, and {len(labels[name])} labels")


def check_labels(names: Sequence[str], quantity: str, labels: Mapping[str, Sequence[str | int]]) -> None:
    """Refuse axes that are neither counted nor labelled."""
    if unlabelled := set(names) - _COUNTED - set(labels):
        labels_of = ", ".join(f"{name!r}: range(n)" for name in sorted(unlabelled))
        raise ValueError(
            f"axes {', '.join(sorted(unlabelled))} of {quantity!r} need labels, one for each of the n entries: "
            f"labels={{{labels_of}}}, or names"
        )


def check_columns(names: Iterable[str], what: str) -> None:
    """Refuse a frame that is no table of measurements."""
    if missing := [name for name in (*KEYS, NUMBERS[0]) if name not in set(names)]:
        hint = "`stagewise.read_log` makes a table of logged curves"
        raise ValueError(f"{what} is no table of measurements: it has no column {', '.join(missing)}; {hint}")


def check_table(table: object, instead: str) -> None:
    """Refuse a value that is no table of measurements, and name the function that takes a run folder."""
    if not isinstance(table, pd.DataFrame):
        raise ValueError(f"a table is what `measure` returns, got {type(table).__name__}; {instead}")
    check_columns(table.columns, "what is given")


def tidy(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Join rows into one table with its columns in order and nullable types."""
    table = pd.concat([frame for frame in frames if len(frame)], ignore_index=True)
    return conformed(table, in_order(table.columns))


def in_order(names: Iterable[str]) -> list[str]:
    """Return the columns of a table that has these: keys, axes, values, each once; maps only if there are any.

    >>> in_order(["value", "head", "step", "head"])[3:6]
    ['quantity', 'head', 'value']
    """
    given = dict.fromkeys(names)
    values = [name for name in VALUES if name != "map" or name in given]
    return [*KEYS, *(name for name in given if name not in KEYS + VALUES), *values]


def conformed(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return a frame with exactly these columns, in this order and with a table's types."""
    return frame.reindex(columns=list(columns)).astype({name: type_of(name) for name in columns})


def type_of(name: str) -> str:
    """Return the type of a column: an axis of whole numbers or of text may be missing."""
    if name in KEYS:
        return "int64" if name == "step" else "str"
    if name in NUMBERS:
        return "Int64" if name == "n" else "float64"
    if name in ARRAYS:
        return "object"
    return "Int64" if name in _WHOLE else TEXT


def select(table: pd.DataFrame, probe: str, quantity: str | None = None, **axes: object) -> pd.DataFrame:
    """Return the rows of a probe, of a quantity, and with the given values on the axes, in the order of the steps.

    Raises:
        ValueError: there are none; the message lists those of the table.
    """
    of_probe = table[table["probe"] == probe]
    rows = of_probe if quantity is None else of_probe[of_probe["quantity"] == quantity]
    for name, value in axes.items():
        rows = rows[rows[name] == value] if name in rows else rows.iloc[:0]
    if rows.empty:
        request = ", ".join([probe, *filter(None, [quantity]), *(f"{k}={v}" for k, v in axes.items())])
        has = of_probe["quantity"].unique().tolist() if len(of_probe) else table["probe"].unique().tolist()
        raise ValueError(f"the table has no rows of {request}; it has {', '.join(map(str, has))}")
    return rows.loc[:, rows.notna().any() | rows.columns.isin([*KEYS, NUMBERS[0]])].sort_values("step", kind="stable")


def rows_named(table: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Return the rows of some quantities, each named as "AttentionTo.mass"; columns of text may be categories."""
    return table[(table["probe"].astype("str") + "." + table["quantity"].astype("str")).isin(list(names))]


def maps_in(rows: pd.DataFrame) -> np.ndarray:
    """Return the maps of rows that hold a map each, as those of `MeanPattern` do, [row, query, key]."""
    cells = np.stack(rows["map"].to_list())
    return cells.reshape(len(cells), *2 * [math.isqrt(cells.shape[1])])


def head_label(layer: int, head: int) -> str:
    """Name a head as TransformerLens users do.

    >>> head_label(1, 4)
    'L1H4'
    """
    return f"L{layer}H{head}"


def heads_in_words(n_layers: int, n_heads: int) -> str:
    """Say how many heads a model has.

    >>> heads_in_words(1, 2)
    '1 layer of 2 heads'
    """
    layers, heads = ("" if n == 1 else "s" for n in (n_layers, n_heads))
    return f"{n_layers} layer{layers} of {n_heads} head{heads}"


def check_head(layer: int, head: int, n_layers: int, n_heads: int, of: str = "the model") -> None:
    """Raise ValueError for a head that a model of so many layers and heads a layer does not have."""
    if not (0 <= layer < n_layers and 0 <= head < n_heads):
        has = heads_in_words(n_layers, n_heads)
        raise ValueError(f"there is no head {head_label(layer, head)}: {of} has {has}, counted from 0")


Head = tuple[int, int]
"""Layer and head."""


def heads_in(table: pd.DataFrame) -> list[Head]:
    """List the (layer, head) pairs that the table has rows of, in order."""
    if not {"layer", "head"} <= set(table.columns):
        return []
    layers, heads = (table[name].to_numpy(float, na_value=np.nan) for name in ("layer", "head"))
    known = ~np.isnan(layers + heads)
    return sorted({*zip(layers[known].astype(int).tolist(), heads[known].astype(int).tolist(), strict=True)})


def check_steps(rows: pd.DataFrame, name: str) -> None:
    """Refuse the rows of a curve that has several values at a step, as a run that was resumed may have logged."""
    if (twice := rows["step"].duplicated()).any():
        step = rows.loc[twice, "step"].iloc[0]
        raise ValueError(f"{name} has several values at step {step}: take one run, and of each step the last one")


def families(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Sort the references of a table's rows into nested partial solutions, separately trained models and the rest.

    The column `nested` counts the partial solutions from 1, and is 0 for other references; `context` is the one of
    models trained on a restricted context. In rows without `nested` all others are partial solutions, in their order.
    """
    if "reference" not in rows:
        return {"nested": [], "trained": [], "other": []}
    rows = rows.dropna(subset="reference").drop_duplicates("reference")
    trained = rows["context"].notna() if "context" in rows else pd.Series(False, rows.index)
    rank = rows["nested"] if "nested" in rows else (~trained).astype(int)
    nested = rows.assign(nested=rank)[rank > 0].sort_values("nested", kind="stable")
    of = {"nested": nested, "trained": rows[trained], "other": rows[(rank == 0) & ~trained]}
    return {name: part["reference"].astype(str).tolist() for name, part in of.items()}
