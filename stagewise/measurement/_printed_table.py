"""How a measured table prints: the axes of a row in one column, the first and the last rows of many."""

from typing import Any

import pandas as pd

from stagewise.table import ARRAYS, KEYS, VALUES

_ENDS = 8
"""Rows that are printed at either end of a long table."""

_LOOK: dict[str, Any] = {"na_rep": "", "float_format": "{:.4g}".format}


class Table(pd.DataFrame):
    """A tidy frame that prints well: axes in one column, few rows; resamples and maps are neither shown nor written as
    CSV.
    """

    @property
    def _constructor(self) -> type["Table"]:
        return Table

    def __repr__(self) -> str:
        return f"{_printed(self).to_string(index=False, **_LOOK)}\n{_size(self)}"

    def to_csv(self, *arguments: Any, **options: Any) -> Any:
        """Write as pandas does, without the columns of arrays unless `columns` names them."""
        rows = self if options.get("columns") is not None else self.drop(columns=ARRAYS, errors="ignore")
        return pd.DataFrame(rows).to_csv(*arguments, **options)

    def _repr_html_(self) -> str:
        return f"{_printed(self).to_html(index=False, **_LOOK)}<p>{_size(self)}</p>"


def _printed(table: pd.DataFrame) -> pd.DataFrame:
    ends = table if len(table) <= 2 * _ENDS else pd.concat([table.head(_ENDS), table.tail(_ENDS)])
    shown = pd.DataFrame(ends).drop(columns=ARRAYS, errors="ignore")
    if not {*KEYS, "value"} <= set(shown.columns):
        return shown
    axes = shown.drop(columns=[*KEYS, *VALUES], errors="ignore")
    values = shown[[name for name in VALUES if name in shown and (name == "value" or shown[name].notna().any())]]
    values = values.astype("float64")
    where = [
        ", ".join(f"{name} {label}" for name, label in row.items() if not pd.isna(label))
        for row in axes.to_dict("records")
    ]
    return pd.concat([shown[KEYS], pd.Series(where, shown.index, object, "axes"), values], axis=1)


def _size(table: pd.DataFrame) -> str:
    shown = f", the first and the last {_ENDS} shown" if len(table) > 2 * _ENDS else ""
    return f"{len(table)} rows{shown}"
