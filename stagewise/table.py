"""The tidy table: one row a value; `run, step, probe, quantity`, a nullable column an axis, `value, lo, hi, n`."""

from collections.abc import Iterable

import pandas as pd

KEYS = ["run", "step", "probe", "quantity"]
VALUES = ["value", "lo", "hi", "n", "resamples"]
WHOLE = {
    *("tokens", "layer", "head", "offset", "position", "query", "key", "context"),
    *("cluster", "n_clusters", "row", "token"),
}
"""Axes whose labels are whole numbers; the others are text."""

LEVEL = 0.95
"""Confidence level of `lo` and `hi`: percentiles of the bootstrap."""


def tidy(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Join rows into one table with its columns in order and nullable types."""
    table = pd.concat([frame for frame in frames if len(frame)], ignore_index=True)
    axes = [name for name in table.columns if name not in KEYS + VALUES]
    table = table.reindex(columns=[*KEYS, *axes, *VALUES])
    for name in axes:
        table[name] = table[name].astype("Int64" if name in WHOLE else "string")
    return table.astype({"step": "int64", "n": "Int64", "value": "float64"})


def select(table: pd.DataFrame, probe: str, quantity: str | None = None, **axes: object) -> pd.DataFrame:
    """Return the rows of a probe, of a quantity, and with the given values on the axes, in the order of the steps.

    Raises:
        ValueError: there are none; the message lists what there is.
    """
    there = table[table["probe"] == probe]
    found = there if quantity is None else there[there["quantity"] == quantity]
    for name, value in axes.items():
        found = found[found[name] == value] if name in found else found.iloc[:0]
    if found.empty:
        wanted = ", ".join([probe, *filter(None, [quantity]), *(f"{k}={v}" for k, v in axes.items())])
        has = there["quantity"].unique().tolist() if len(there) else table["probe"].unique().tolist()
        raise ValueError(f"the table has no rows of {wanted}; it has {', '.join(map(str, has))}")
    return found.dropna(axis="columns", how="all").sort_values("step", kind="stable")


def head_label(layer: int, head: int) -> str:
    """Name a head as TransformerLens users do.

    >>> head_label(1, 4)
    'L1H4'
    """
    return f"L{layer}H{head}"
