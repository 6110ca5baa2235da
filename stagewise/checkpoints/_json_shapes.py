"""The shapes in which a JSON file holds curves: rows, columns, steps as keys, and several of these within an object."""

import itertools
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from stagewise.checkpoints._log_layout import flat
from stagewise.checkpoints._log_lines import STEPS

EVENT = ("wall time", "step", "value")
"""The columns of TensorBoard's download as JSON, which has no names."""

AXIS = (*STEPS, "epoch", "epochs", "tokens", "checkpoint", "checkpoints")
"""What columns may go by, in lower case."""

AT_STEP = re.compile(
    r"(?:(?P<epoch>epoch)|step|checkpoint|ckpt|iter(?:ation)?|update)?[-_ ]?(?P<at>\d+)", re.IGNORECASE
)
"""A key that names the step of what it holds: "1000", "step_1000", "epoch 3"."""

SPLIT = re.compile(r"(?:train|valid|val|dev|test|eval)[a-z]*", re.IGNORECASE)
"""Names of data that one run is measured on, as against names of runs."""

FEWEST = 4
"""Values from which on a list is a curve, and no setting."""

Lists = dict[str, list[Any]]


def frame_of(held: Any) -> pd.DataFrame:
    """Return the curves of a JSON value: those of its one table, or of all that have steps, each named by its keys.

    Raises:
        ValueError: an object has none.

    >>> frame_of({"train": {"step": [0, 9], "loss": [2.0, 1.0]}, "val": {"step": [9], "loss": [1.5]}})
       step  train/loss  val/loss
    0     0         2.0       NaN
    1     9         1.0       NaN
    2     9         NaN       1.5
    """
    if holds(held, list) and all(len(row) == len(EVENT) for row in held):
        return pd.DataFrame(held, columns=list(EVENT))
    tables = [(path, table) for path, table in _tables(held, (), {}) if len(_values(table))]
    stepped = [(path, table) for path, table in tables if _has_axis(table)]
    for path, table in tables if stepped else []:
        if not path and not _has_axis(table) and len(table) >= FEWEST:
            names = ", ".join(map(str, table.columns))
            warnings.warn(f"no column of steps has as many values as {names} ({len(table)}): left out", stacklevel=5)
    if not tables and isinstance(held, Mapping):
        raise ValueError("no rows, columns or steps of numbers are in it")
    return _joined(stepped or tables[:1]) if tables else pd.DataFrame(held)


def _joined(tables: Sequence[tuple[tuple[str, ...], pd.DataFrame]]) -> pd.DataFrame:
    """Return tables as one, each with the keys that lead to it: as a run, where all have the same columns."""
    if len(tables) == 1:
        return tables[0][1]
    levels = [*zip(*(path for path, _ in tables), strict=False)]
    shared = next((k for k, names in enumerate(levels) if len({*names}) > 1), len(levels))
    named = [("/".join(path[shared:]), table) for path, table in tables]
    keys, columns = {name for name, _ in named}, {tuple(table.columns) for _, table in named}
    if len(keys) == len(named) and len(columns) == 1 and not all(map(SPLIT.fullmatch, keys)):
        return pd.concat([table.assign(run=name) for name, table in named], ignore_index=True)
    told = [table.rename(columns={each: f"{name}/{each}" for each in _values(table) if name}) for name, table in named]
    return pd.concat(told, ignore_index=True)


def of_rows(rows: Sequence[Any]) -> pd.DataFrame:
    """Return rows as a table, those that are objects by their keys, of whatever depth."""
    return pd.DataFrame([flat(row) for row in rows] if holds(rows, Mapping) else rows)


def holds(held: Any, kind: type) -> bool:
    """Whether a value is a list of nothing but such values, and of one at least."""
    return isinstance(held, list) and bool(held) and all(isinstance(each, kind) for each in held)


def _values(table: pd.DataFrame) -> list[Any]:
    """Return the columns that are no axis."""
    return [name for name in table.columns if str(name).lower() not in AXIS]


def _has_axis(table: pd.DataFrame) -> bool:
    return len(_values(table)) < len(table.columns)


def _tables(held: Any, path: tuple[str, ...], axes: Lists) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    """Yield the tables within a value, with the keys that lead there; `axes` are the columns of steps above it."""
    if holds(held, Mapping):
        yield path, of_rows(held)
    elif isinstance(held, Mapping) and (table := _whole(held)) is not None:
        yield path, table
    elif isinstance(held, Mapping) and held and all(type(each) in (int, float) for each in held.values()):
        if all(steps := [AT_STEP.fullmatch(str(key)) for key in held]):
            at = [int(one["at"]) for one in steps if one]
            yield path[:-1], pd.DataFrame({"step": at, (path or ("value",))[-1]: [*held.values()]})
    elif isinstance(held, Mapping):
        lists = {str(name): each for name, each in held.items() if isinstance(each, list) and not holds(each, Mapping)}
        axes = axes | {name: each for name, each in lists.items() if re.split(r"[_/ ]", name)[-1].lower() in AXIS}
        yield from ((path, table) for table in _columns(lists, axes))
        for name, each in held.items():
            if str(name) not in lists:
                yield from _tables(each, (*path, str(name)), axes)


def _whole(held: Mapping[str, Any]) -> pd.DataFrame | None:
    """Return an object that is one table: by rows of transformers' Trainer, of pandas', by steps, or of Sacred."""
    if isinstance(held.get("log_history"), list):
        return of_rows(held["log_history"])
    if holds(held.get("data"), list) and isinstance(held.get("columns"), list):
        return pd.DataFrame(held["data"], columns=held["columns"])
    if not held or not all(isinstance(each, Mapping) for each in held.values()):
        return None
    steps = [AT_STEP.fullmatch(str(key)) for key in held]
    if all(steps):
        at = [{"epoch" if one["epoch"] else "step": int(one["at"])} for one in steps if one]
        rows = zip(at, held.values(), strict=True)
        return of_rows([row if {*map(str.lower, row)} & {*STEPS} else {**one, **row} for one, row in rows])
    if all({"steps", "values"} <= each.keys() for each in held.values()):
        by_name = [pd.DataFrame({"metric": k, "step": v["steps"], "value": v["values"]}) for k, v in held.items()]
        return pd.concat(by_name, ignore_index=True)
    by_rows = all(str(row).isdecimal() and not isinstance(each[row], Mapping) for each in held.values() for row in each)
    if by_rows and {*map(str.lower, held)} & {*AXIS}:  # by columns, then by the numbers of rows
        return pd.DataFrame({name: [*column.values()] for name, column in held.items()})
    return None


def _columns(lists: Lists, axes: Lists) -> Iterator[pd.DataFrame]:
    """Yield a table for each length of lists, with what they go by: of several columns of steps, as "train_steps" and
    "val_steps", the one whose first word the name begins with; pairs of a step and a value have theirs.
    """
    for length in dict.fromkeys(len(each) for name, each in lists.items() if name not in axes):
        own = {name: each for name, each in lists.items() if len(each) == length and name not in axes}
        beside = {name: each for name, each in axes.items() if len(each) == length}
        plain = {name: each for name, each in beside.items() if name.lower() in AXIS}
        if not beside:
            pairs = {name: each for name, each in own.items() if _are_pairs(each)}
            yield from (pd.DataFrame(each, columns=["step", name]) for name, each in pairs.items())
            own = {name: each for name, each in own.items() if name not in pairs}
        if plain or not beside:
            yield _of_lists(plain | own)
            continue
        first = next(iter(beside))
        of = {
            name: next((axis for axis in beside if name.startswith(re.split(r"[_/ ]", axis)[0])), first) for name in own
        }
        for axis, steps in beside.items():
            yield _of_lists({"step": steps} | {name: own[name] for name in own if of[name] == axis})


def _are_pairs(held: list[Any]) -> bool:
    """Whether a list has pairs of a whole number and a number, the whole ones ascending."""
    if not all(isinstance(each, list) and [type(one) in (int, float) for one in each] == [True] * 2 for each in held):
        return False
    steps = [each[0] for each in held]
    return all(float(one).is_integer() for one in steps) and all(a < b for a, b in itertools.pairwise(steps))


def _of_lists(lists: Lists) -> pd.DataFrame:
    """Return lists of one length as columns; a list of lists is as many columns as each has entries."""
    if any(each and isinstance(each[0], list) for each in lists.values()):
        return of_rows([dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)])
    return pd.DataFrame(lists)
