"""How the curves of a log lie in it: lists within rows, and tables with several rows a step, are made columns."""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

HEAD = re.compile(
    r"(?P<name>.+)[/_.]L(?P<layer>\d+)[_.]?H(?P<head>\d+)"
    r"|L(?P<layer_alone>\d+)[_.]?H(?P<head_alone>\d+)[/_. ](?P<of>.+)"
)
"""The name of the curve of a head, as "prefix matching/L1H6", "sink_L1H6" and "L1H6 prefix matching"."""

AXES = ("layer", "head")
"""Columns that say of which head a row is, in lower case."""

NAMES = ("metric", "metric_name", "name", "key", "tag", "variable", "quantity", "curve")
"""Names of the column of the curves' names in a log with one value a row, in lower case."""

OF_ALL = (*NAMES, "score", "measure")
"""Names of the column with one name for all values, in lower case."""

LARGEST = 4096
"""Numbers of a list in a row at most that are curves."""

MOSTLY = 0.5
"""Part of the steps from which on several rows a step are several curves."""


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of JSON with its lists as entries: "ind/L1H0" of layers by heads, "ind/3" of a list of numbers.

    >>> flat({"step": 5, "ind": [[0.1, 0.9]], "by position": [2.0, 1.0]})
    {'step': 5, 'ind/L0H0': 0.1, 'ind/L0H1': 0.9, 'by position/0': 2.0, 'by position/1': 1.0}
    """
    return dict(_entries(row, ""))


def _entries(row: Mapping[str, Any], folder: str) -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        name = f"{folder}{key}"
        if isinstance(value, Mapping):
            yield from _entries(value, f"{name}/")
        elif not isinstance(value, list):
            yield name, value
        elif (numbers := _numbers(value)) is not None and 0 < numbers.size <= LARGEST:
            yield from ((f"{name}/{place(at)}", float(number)) for at, number in np.ndenumerate(numbers))
        elif value and not any(isinstance(each, str) for each in value):
            warnings.warn(f"{name!r} is left out: its lists are neither numbers nor layers by heads", stacklevel=6)


def _numbers(value: list[Any]) -> np.ndarray | None:
    """Return a list of numbers, or of such lists of one length, as an array; None of any other."""
    try:
        numbers = np.array(value, dtype=float)
    except (TypeError, ValueError):
        return None
    return numbers if numbers.ndim in (1, 2) else None


def place(at: Sequence[int]) -> str:
    """Name an entry of a list, or of layers by heads."""
    return f"L{at[0]}H{at[1]}" if len(at) == 2 else str(at[0])


def head_of(name: str) -> tuple[str, dict[str, int]]:
    """Return the name of a curve without its head, and the head's layer and number; of another curve, its name alone.

    >>> head_of("prefix matching/L1H6"), head_of("L1H6 score"), head_of("sink_L1H6")[0], head_of("loss")
    (('prefix matching', {'layer': 1, 'head': 6}), ('score', {'layer': 1, 'head': 6}), 'sink', ('loss', {}))
    """
    match = HEAD.fullmatch(name)
    if match is None:
        return name, {}
    layer, head = match["layer"] or match["layer_alone"], match["head"] or match["head_alone"]
    return match["name"] or match["of"], {"layer": int(layer), "head": int(head)}


def wide(frame: pd.DataFrame, at: Any, runs: Any, values: str) -> pd.DataFrame:
    """Return a table with several rows a step, told apart by text or heads, with a column for each curve; or itself."""
    keys = [at] if runs is None else [at, runs]
    if not frame.duplicated(keys).any():
        return frame
    if not (frame.groupby(keys, sort=False).size() > 1).mean() > MOSTLY:  # a resumed run repeats few steps
        return frame
    numbers = {name for name in frame if pd.api.types.is_numeric_dtype(frame[name]) or frame[name].isna().all()}
    named = [name for name in frame.columns.drop(keys) if str(name).lower() in AXES or name not in numbers]
    # A layer may also have a name, as its weights.
    axes = {name for name in named if str(name).lower() in AXES and pd.api.types.is_numeric_dtype(frame[name])}
    several = {name for name in named if (frame.groupby(keys, sort=False)[name].nunique(dropna=False) > 1).any()}
    # A head of the only layer has that layer's number too.
    varying = [name for name in named if name in (several | axes if several & axes else several)]
    curves = [name for name in frame.columns.drop([*keys, *named]) if pd.api.types.is_numeric_dtype(frame[name])]
    if not varying or not curves or frame.duplicated([*keys, *varying]).any():
        return frame
    nameless = all(str(name).lower() == values for name in curves)
    texts = not {*varying} <= axes
    # The column that has one name for all values, where nothing else names them.
    one = [name for name in named if str(name).lower() in OF_ALL][:1] if nameless and not texts else []
    labels = frame[[*one, *varying]].apply(lambda row: _label(row.to_dict()), axis=1)
    parts = []
    for label, rows in frame.groupby(labels, sort=False):
        columns = {name: _named(label, str(name), values) for name in curves}
        parts.append(rows.set_index(keys)[curves].rename(columns=columns))
    return pd.concat(parts, axis=1).reset_index()


def _label(row: Mapping[Any, Any]) -> tuple[str, str]:
    """Return the names that a row's columns of text give its curve, and its head."""
    # What is of the whole model has no layer, and what is of a whole layer no head.
    told = {str(name).lower(): value for name, value in row.items() if not pd.isna(value)}
    axes = {name: value for name, value in told.items() if name in AXES and not isinstance(value, str)}
    texts = [str(value) for name, value in told.items() if name not in axes]
    if {*axes} == {*AXES}:
        return "/".join(texts), f"L{int(axes['layer'])}H{int(axes['head'])}"
    return "/".join([*texts, *(f"{name} {int(value)}" for name, value in axes.items())]), ""


def _named(label: tuple[str, str], name: str, values: str) -> str:
    text, head = label
    parts = [text, *([] if name.lower() == values and text else [name]), head]
    return "/".join(part for part in parts if part)
