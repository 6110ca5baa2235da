"""Frames of findings: columns of fixed types, as plain data for JSON and back, and a digest of what they came from."""

import hashlib
import html
import itertools
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

import stagewise
from stagewise.table import ARRAYS, DECLARED, ROLES, Role, Roles, select, with_role

COMPARED = Role.KL, Role.RESTRICTED_KL, Role.SHARE
"""Roles of what stages and their words are read from, beside scores that are followed."""

TIMES = ("t10", "t50", "t90")
TYPES = {
    **{"verdict": "str", "onset": "bool", "transient": "bool"},
    **dict.fromkeys(("before", "after", "last"), "float64"),
    **{f"{name}{end}": "float64" for name in TIMES for end in ("", "_lo", "_hi")},
    **dict.fromkeys(("bayes", "p_value", "p_adjusted", "noise"), "float64"),
    **{"within_gap": "boolean"},
    **dict.fromkeys(("transition", "checkpoints", "not_finite_at"), "Int64"),
    **{"cause": "str", "smallest": "float64", "last_step": "Int64", "at_offset": "Int64"},
}
"""Columns of onsets that follow the probe, the quantity and the axes, with their types."""

Columns = dict[str, str]
"""Columns of a frame, with their types."""

Rows = Mapping[Role, pd.DataFrame]
"""Role -> the rows of a quantity that has it, in the order of the steps."""

Plain = dict[str, dict[str, Any]]
"""Column -> its type and its values, none of which is a nan or infinite."""


class InWords:
    """Findings that are printed, and shown in a notebook, as sentences: those that the package has for them."""

    axis: str = "steps"
    """The unit of its times: "steps" or "tokens"."""

    def __str__(self) -> str:
        finding: Any = self  # only its leaves have words
        return stagewise.in_words(finding)

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{html.escape(line)}</li>" for line in str(self).splitlines())
        return f'<ul style="list-style: none; padding: 0">{lines}</ul>'


def typed(records: Iterable[Mapping[str, Any]], types: Mapping[str, str]) -> pd.DataFrame:
    """Return records as a frame with these columns and types; what a record lacks is missing."""
    return pd.DataFrame(list(records), columns=list(types)).astype(dict(types))


def plain(frame: pd.DataFrame) -> Plain:
    """Return a frame as plain data: a missing number is None, an infinite one the word "inf"."""
    return {
        str(name): {"type": str(frame[name].dtype), "values": [_plain(value) for value in frame[name].tolist()]}
        for name in frame
    }


def _plain(value: Any) -> Any:
    if pd.isna(value):
        return None
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def from_plain(columns: Plain) -> pd.DataFrame:
    """Return the frame that `plain` was given."""
    return pd.DataFrame({name: _column(column["type"], column["values"]) for name, column in columns.items()})


def _column(kind: str, values: list[Any]) -> pd.Series:
    if kind == "float64":
        values = [math.nan if value is None else float(value) for value in values]
    return pd.Series(values, dtype=kind)


def digest(table: pd.DataFrame) -> str:
    """Return a hash of a table and its quantities, the same from disk, without resamples and maps."""
    content = hashlib.sha256(str(table.attrs.get(DECLARED)).encode())
    for name in sorted(set(map(str, table)) - set(ARRAYS)):
        if table[name].notna().any():
            content.update(f"{name} {len(table)} ".encode() + _bytes(table[name]))
    return content.hexdigest()


def _bytes(column: pd.Series) -> bytes:
    if pd.api.types.is_numeric_dtype(column):
        values = column.to_numpy("float64", na_value=np.nan)
        return np.where(np.isnan(values), np.nan, values).tobytes()
    places, labels = pd.factorize(column)
    return places.astype("int64").tobytes() + json.dumps([str(label) for label in labels]).encode()


def rows_of(table: pd.DataFrame, role: Role, **axes: object) -> pd.DataFrame:
    """Return the rows of the first quantity with a role, and with these values on the axes, as `select` does."""
    probe, name = next(itertools.chain(with_role(table, role), (pair for pair in ROLES if ROLES[pair] == role)))
    return select(table, probe, name, **axes)


def by_role(table: pd.DataFrame, roles: Roles) -> Rows:
    """Return the rows of the first quantity with each role that findings compare, none where the table has none."""
    first = {role: roles[role][:1] for role in (*COMPARED, Role.ATTENTION_ALONG, Role.UNIFORM_ATTENTION)}
    return {role: select(table, *pairs[0]) if pairs else table.iloc[:0] for role, pairs in first.items()}


def by_reference(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Split the rows of KL by reference."""
    return {str(name): curve for name, curve in rows.groupby("reference", sort=False)} if len(rows) else {}


def resamples_of(rows: pd.DataFrame) -> np.ndarray | None:
    """Return a curve in every resample of the probe batch, [resample, step]; None where there are none."""
    if "resamples" in rows and rows["resamples"].notna().all():
        return np.stack(rows["resamples"].to_list()).T
    return None


def names_of(table: pd.DataFrame, *roles: Role) -> list[str]:
    """List the quantities of a table with one of these roles by their names, as "Mine.score"."""
    return [".".join(pair) for pair in with_role(table, *roles)]
