"""Columns of logged curves: numbers written as text, rates, and steps that a resumed run logged again."""

import io
import itertools
import json
import re
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from stagewise.checkpoints._json_shapes import frame_of, of_rows
from stagewise.checkpoints._log_lines import STEPS
from stagewise.checkpoints._log_roles import is_measured
from stagewise.checkpoints.names import read_names

PLAIN = r"[-+]?(\d{1,3}(,\d{3})+|\d+)?(\.\d*)?([eE][-+]?\d+)?"
WRITTEN = re.compile(
    rf"\s*(?:(?P<blank>-+|[\u2013\u2014])|(?P<plain>{PLAIN})\s*(?P<percent>%?)|(?P<special>[-+]?(?i:nan|inf|infinity))"
    r"|tensor\((?P<tensor>[^,()]+).*\))\s*"
)
"""Numbers as a log may hold them: with commas between thousands, in percent, as torch prints a tensor, nan, or none."""

THOUSANDS = r"^\s*(?P<number>\d[\d,_]*(?:\.\d+)?)\s*(?P<unit>[kKmMbB])?\s*$"
UNITS = {"k": 1e3, "m": 1e6, "b": 1e9}
"""Steps as people write them."""

PARTS = {10: "tenths", 100: "hundredths", 1000: "thousandths", 10**6: "millionths"}
"""Parts of an epoch in which steps are counted."""

LEAST, PART = 1000, 1e-6
"""Parts from which on they need not hold an epoch, but keep apart those that differ, and by how much an epoch may miss
one that holds it.
"""

CHECKPOINTS = (
    "checkpoint",
    "ckpt",
    "checkpoint_name",
    "checkpoint_path",
    "revision",
    "model_revision",
    "model",
    "model_id",
    "model_name",
    "path",
)
"""Names of the column with the names of checkpoints, in lower case."""

TOKENS = re.compile(
    r"(?:n_|num_|train(?:ing)?_|consumed_)?tokens?(?:_seen|_consumed)?[\s_]*(?:in[\s_])?[\[(]?"
    r"(?P<unit>[kmbt]|million|billion|trillion)s?[\])]?",
    re.IGNORECASE,
)
"""Names of a column of tokens in thousands, millions, billions or trillions, as "tokens_b" or "Tokens (B)"."""

PLUS_MINUS = r"^\s*([-+.\deE]+)\s*(?:±|\+/-|\+-)\s*([.\deE-]+)\s*$"
"""A value with its error in one cell."""

TRAINED, GRADIENT = ("loss", "train_loss"), "grad_norm"
"""Names of the loss that is trained, and of its gradient's norm."""

FILTERED, SUDDEN = 3, 0.1
"""Zeros at the end of a loss that stand for nan, at least; and the part of its largest distance from its last value
up to which it comes near to that, as to a floor.
"""

REPEATED = 10
"""Rows in which a loss has one other value to its end, after twice as many without any twice, that stand for nan."""

SEVERAL = 3
"""Values of another curve, where a loss has but one, from which on the run goes on: one may be from before."""

SELDOM = 0.1
"""Part of the values of a curve before which a log may go back to an earlier step, once at least, by resumed runs."""

COMMENTS = 20
"""Lines that begin with "#" or "%" at most before the columns of a file."""

SEPARATORS = (",", "\t", ";", "|")
"""Signs between columns; where there is none of them, spaces separate columns."""

MARKDOWN = re.compile(r"^([ |]*\w.*\|.*\n)[ |:]*-[-| :]*\n((?:.*\|.*(?:\n|\Z))+)", re.MULTILINE)
"""A table of Markdown: a line of names, dashes, and its rows."""

GROUPED = r"\s*[-+]?(?:[1-9]\d{0,2}(?:\.\d{3})+|\d+)(?:,\d+)?\s*%?\s*"
"""A number with a comma for its decimals, and a point between its thousands if anything."""


def from_text(column: pd.Series) -> pd.Series:
    """Return a column of text as numbers where each of its entries is one, percents as shares; any other as it is.

    True and False beside missing ones, which pandas keeps as they are, are 1 and 0.
    """
    if pd.api.types.is_numeric_dtype(column) or column.isna().all():
        return column
    if column.dropna().map(lambda entry: isinstance(entry, bool)).all():
        return column.astype(float)
    try:
        return column.map(_written, na_action="ignore").astype(float)
    except ValueError:
        return column


def _written(text: Any) -> float:
    match = WRITTEN.fullmatch(str(text))
    if match is None:
        raise ValueError(text)
    if number := match["tensor"] or match["special"] or (match["blank"] and "nan"):
        return float(number)
    return float(match["plain"].replace(",", "")) / (100 if match["percent"] else 1)


def with_errors(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which a column of text like "0.81 ± 0.01" is two: the values, and their standard errors."""
    for name in frame.select_dtypes(exclude="number").columns:
        parts = frame[name].dropna().astype(str).str.extract(PLUS_MINUS).apply(pd.to_numeric, errors="coerce")
        if len(parts) and parts.notna().all(axis=None):
            frame = frame.assign(**{str(name): parts[0], f"{name}_stderr": parts[1]})
    return frame


def in_thousands(column: pd.Series) -> pd.Series:
    """Return a column of text as whole numbers where each is one, or one of thousands, millions or billions, as "50K".

    >>> in_thousands(pd.Series(["0", "50K", "1.2M"])).tolist()
    [0.0, 50000.0, 1200000.0]
    """
    if pd.api.types.is_numeric_dtype(column):
        return column
    parts = column.astype(str).str.extract(THOUSANDS)
    if not len(parts) or parts["number"].isna().any():
        return column
    numbers = parts["number"].str.replace(r"[,_]", "", regex=True).astype(float)
    return numbers * parts["unit"].str.lower().map(UNITS).fillna(1)


def is_epoch(name: Any) -> bool:
    """Whether a column counts epochs, or parts of them."""
    return str(name).lower().rpartition("/")[2] in ("epoch", "epochs")


def in_parts(epochs: pd.Series) -> pd.Series:
    """Return epochs as whole numbers: of the largest parts that hold all of them, or keep apart what thousandths may.

    >>> with warnings.catch_warnings(action="ignore"):
    ...     in_parts(pd.Series([0.5, 1, 1.5])).tolist(), in_parts(pd.Series([1 / 3, 2 / 3])).tolist()
    ([5.0, 10.0, 15.0], [333.0, 667.0])
    """
    numbers = pd.to_numeric(epochs, errors="coerce")
    if not (numbers.dropna() % 1).any():
        return epochs
    for size, parts in PARTS.items():
        whole = (size * numbers).round()
        exact = np.allclose(whole, size * numbers, rtol=0, atol=PART, equal_nan=True)
        if exact or (size >= LEAST and whole.nunique() == numbers.nunique()):
            warnings.warn(f"steps are counted in {parts} of an epoch, by {epochs.name!r}", stacklevel=3)
            return whole
    return epochs


def with_steps(frame: pd.DataFrame) -> pd.DataFrame:
    """Add a column of steps, where there is none, by the names of checkpoints, or of tokens that are told in billions.

    >>> frame = pd.DataFrame({"checkpoint": ["step0", "step1000"], "acc": [0.1, 0.9]})
    >>> with warnings.catch_warnings(action="ignore"):
    ...     with_steps(frame)["step"].tolist()
    [0, 1000]
    >>> with_steps(pd.DataFrame({"Tokens (B)": [0.5, 2], "acc": [0.1, 0.9]}))["tokens"].tolist()
    [500000000.0, 2000000000.0]
    """
    lower = {str(name).lower(): name for name in frame.columns}
    if {*lower} & {*STEPS}:
        return frame
    for column in (lower[name] for name in CHECKPOINTS if name in lower):
        if pd.api.types.is_numeric_dtype(frame[column]):
            continue
        names = frame[column].astype(str)
        at = dict(zip(unique := [*names.unique()], (each.at for each in read_names(unique)), strict=True))
        steps = {name: one.step for name, one in at.items() if one}
        branches = {one.branch for one in at.values() if one}
        if len({*steps.values()}) == len(at) > len(branches) == 1:
            warnings.warn(f"there is no column of steps: they are read from the names in {column!r}", stacklevel=3)
            return frame.drop(columns=column).assign(step=names.map(steps))
    for name, match in ((name, TOKENS.fullmatch(str(name))) for name in frame.columns):
        if match and pd.api.types.is_numeric_dtype(frame[name]):
            tokens = (frame[name] * (UNITS | {"t": 1e12})[match["unit"][0].lower()]).round()
            return frame.drop(columns=name).assign(tokens=tokens)
    return frame


def as_numbers(column: pd.Series) -> pd.Series:
    """Return a column of numbers, scalar tensors or arrays, and None as one of floats; any other as it is."""
    if column.dtype != object or not all(hasattr(each, "__float__") and np.ndim(each) == 0 for each in column.dropna()):
        return column
    # A tensor that requires gradients warns where it is made a float.
    return column.map(lambda each: each.item() if hasattr(each, "item") else each).astype(float)


def without_filtered(frame: pd.DataFrame, at: Any) -> pd.DataFrame:
    """Return a log with nan where a trainer hides it: a loss of 0, or of a value that no two rows had, to the end."""
    of_ended = [str(name) for name in frame if str(name).endswith("terminated_length")]
    frame = frame.assign(**{name: frame[name].mask(frame[name] == 0) for name in of_ended})
    measured = frame[[name for name in frame.select_dtypes("number") if is_measured(str(name))]]
    for name in map(str, frame.select_dtypes("number").columns):
        losses = frame[name].dropna()
        others = np.flatnonzero(losses != losses.iloc[-1:].max())
        if "loss" in name.rpartition("/")[2].lower() and len(others):
            before, same = losses.iloc[: others[-1] + 1], losses.iloc[others[-1] + 1 :]
            if _are_hidden(name, before, same, measured.drop(columns=name, errors="ignore")):
                told = f"{name} is {same.iloc[0]:g} from step {frame.loc[same.index[0], at]} on"
                warnings.warn(f"{told}, as a trainer writes nan: the run diverged", stacklevel=3)
                frame = frame.assign(**{name: frame[name].drop(same.index)})
    return frame


def _are_hidden(name: str, before: pd.Series, same: pd.Series, beside: pd.DataFrame) -> bool:
    """Whether the same losses at the end of a log stand for nan: a single 0, too, where gradients are nan from then on.

    They do not while the run goes on beside them, nor where the loss has come near to them from one side: as a loss
    does that ends at a floor, by its digits, by a bound, or since nothing is left to learn.
    """
    norms = next((beside[each] for each in beside if str(each).rpartition("/")[2] == GRADIENT), None)
    if norms is not None and not same.iloc[0] and norms[before.index].notna().all() and norms[same.index].isna().all():
        return name.rpartition("/")[2] in TRAINED
    apart = before - same.iloc[0]
    near = apart.abs().iloc[-1] <= SUDDEN * apart.abs().max() and (apart.min() >= 0 or apart.max() <= 0)
    if near or any(_goes_on(beside[each].loc[same.index[0] :].dropna()) for each in beside):
        return False
    moves = before.diff()[-2 * REPEATED :]
    frozen = len(same) >= REPEATED and len(moves) == 2 * REPEATED and bool(moves.all())
    return frozen if same.iloc[0] else len(same) >= FILTERED and name.rpartition("/")[2] in TRAINED


def _goes_on(values: pd.Series) -> bool:
    """Whether a curve beside a loss that has but one value moves, or is 1 throughout, as a share of right answers."""
    return values.nunique() >= SEVERAL or (len(values) > 0 and bool((values == 1).all()))


def resumed(curve: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return a curve without what was logged before a run was resumed at an earlier step: from that step on."""
    steps = curve["step"].to_numpy()
    if not (curve["step"].duplicated().any() or _goes_back(steps)):
        return curve
    lowest_later = np.append(np.minimum.accumulate(steps[::-1])[::-1][1:], np.iinfo(np.int64).max)
    kept, back = steps < lowest_later, np.diff(steps) < 0
    if back.any() and not kept[0]:
        if np.flatnonzero(back).tolist() != [len(back) - 1]:  # another run
            return curve
        told = f"the last value of {name}, at step {steps[-1]}, is left out: logged without a step?"
        warnings.warn(told, stacklevel=3)
        return curve[:-1]
    if not back.any() and (~kept).sum() > max(1, SELDOM * len(steps)):  # two values of each step
        return curve
    at = f"from step {steps[1:][back].min()} on" if back.any() else f"at step {steps[~kept][0]}"
    again = f"{name} was logged again {at}, as by a resumed run"
    warnings.warn(f"{again}: {(~kept).sum()} earlier values are left out", stacklevel=3)
    return curve[kept]


def _goes_back(steps: np.ndarray) -> bool:
    """Whether steps go back among earlier ones, and seldom: what is in another order goes back often, parts beside."""
    back = np.flatnonzero(np.diff(steps) < 0) + 1
    parts = zip(back, np.split(steps, back)[1:], strict=True)
    among = (((steps[:at] > part[0]) & (steps[:at] < part[-1])).any() for at, part in parts)
    return len(back) <= max(1, SELDOM * len(steps)) and any(among)


def is_table(text: str) -> bool:
    """Whether a text begins with names that something separates, and as many numbers below them."""
    separator, header, values = _head(text.splitlines())
    cells = _cells(values[0], separator) if values else []
    numbers = pd.to_numeric(pd.Series(cells, dtype=object), errors="coerce").notna()
    named = not any(map(_is_number, names := _cells(header, separator)))
    return len(names) == len(cells) > 1 and named and bool(numbers.all() if separator == " " else numbers.any())


def read_separated(text: str) -> pd.DataFrame:
    """Read columns that a comma, a tab, a semicolon, a bar or spaces separate, below comments if there are any."""
    separator, header, values = _head(text.splitlines())
    names = _cells(header, separator)
    if len({*names}) < len(names):  # as pandas writes columns of "loss" by "mean" and "std", in a line each
        rows = (_cells(line, separator) for line in values)
        levels = [*itertools.takewhile(lambda cells: not any(map(_is_number, cells)), rows)]
        names = ["/".join(filter(None, column)) for column in zip(names, *levels, strict=True)]
        header, values = separator.join(names), values[len(levels) :]
    named = re.compile("|".join(map(re.escape, filter(None, names))))
    further = [(at, _cells(line, separator)) for at, line in enumerate(values) if named.search(line)]
    # Headers of other columns than the first one, as where a script has written on.
    others = [(at, cells) for at, cells in further if cells != names and len({*cells} & {*names}) > 1]
    if again := [at for at, cells in others if not any(map(_is_number, cells))]:
        lines, edges = [header, *values], [0, *(at + 1 for at in again), len(values) + 1]
        parts = ["\n".join(lines[start:stop]) for start, stop in itertools.pairwise(edges)]
        return pd.concat(map(read_separated, parts), ignore_index=True)
    if all(map(_is_number, names)) and names != [*map(str, range(len(names)))]:
        raise ValueError("its first line holds numbers: write the names of its columns above it, as step,loss")
    values = _without_torn(values, separator, header)
    decimal = "," if separator != "," and _has_decimal_commas(values, separator) else "."
    frame = pd.read_csv(
        io.BytesIO("\n".join([header, *values]).encode()),  # of a text in memory each character takes four bytes
        sep=r"\s+" if separator == " " else separator,
        decimal=decimal,
        skipinitialspace=separator != "\t",
    ).rename(columns=lambda name: str(name).strip())
    if len(frame.select_dtypes("number").columns) < frame.shape[1]:
        text_cells = frame.astype(str).apply(lambda column: column.str.strip())
        digits = text_cells.apply(lambda column: column.str.contains(r"\d")).any(axis=1)
        frame = frame[digits & ~text_cells.eq([*frame.columns]).any(axis=1)].reset_index(drop=True)
    return frame.apply(_without_points if decimal == "," else from_text)


def _head(lines: list[str]) -> tuple[str, str, list[str]]:
    """Return the sign between columns, the line of their names, and the lines below it."""
    first = next((at for at, line in enumerate(lines[:COMMENTS]) if not line.startswith(("#", "%"))), 0)
    header, *values = lines[first:] or [""]
    separator = max(SEPARATORS, key=header.count)
    separator = separator if separator in header else " "
    comment = lines[first - 1].lstrip("#% ") if first else ""
    cells = _cells(header, separator)
    if first and len(cells) == len(_cells(comment, separator)) and all(map(_is_number, cells)):  # of NumPy's savetxt
        return separator, comment, [header, *values]
    return separator, header, values


def _without_torn(lines: list[str], separator: str, header: str) -> list[str]:
    """Return the lines without the few that have fewer columns than the header, which are told."""
    columns = 0 if separator == " " else header.count(separator)
    short = (at for at, line in enumerate(lines) if line.count(separator) < columns)
    torn = {at: lines[at] for at in short if lines[at].strip() and '"' not in lines[at]}
    if not torn or len(torn) > max(1, SELDOM * len(lines)):
        return lines
    for line in torn.values():
        warnings.warn(f"a line is cut off, and left out: {line[:60]!r}", stacklevel=6)
    return [line for at, line in enumerate(lines) if at not in torn]


def _cells(line: str, separator: str) -> list[str]:
    return line.split() if separator == " " else [cell.strip() for cell in line.split(separator)]


def _is_number(cell: str) -> bool:
    return bool(re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", cell))


def _has_decimal_commas(lines: list[str], separator: str) -> bool:
    """Whether commas stand before decimals, not between thousands; where both would do, as thousands are in a tab's."""
    cells = [cell for line in lines for cell in _cells(line, separator) if "," in cell or "." in cell]
    commas = [cell for cell in cells if re.fullmatch(GROUPED, cell) and "," in cell]
    clear = any(re.search(r"(?<!\d)0,|,(?!\d{3}(?!\d))", cell) for cell in commas)
    return clear or (bool(commas) and separator == ";" and not any(_is_number(cell) for cell in cells))


def _without_points(column: pd.Series) -> pd.Series:
    """Return a column of numbers with points between thousands and commas before decimals as numbers."""
    if pd.api.types.is_numeric_dtype(column) or not column.dropna().astype(str).str.fullmatch(GROUPED).all():
        return from_text(column)
    return from_text(column.str.replace(".", "").str.replace(",", "."))


def read_json_log(text: str, *, lines: bool) -> pd.DataFrame:
    """Read curves in JSON, or by lines, which may be cut off, as where a run is killed."""
    if not lines:
        return frame_of(json.loads(text)).apply(from_text)
    held = _of_lines(text)  # as `wandb leet inspect --json` prints them, or a row each
    rows = (row for row in held if isinstance(row, Mapping) and row.get("type") == "history")
    return of_rows([row["history"]["item"] for row in rows] or held).apply(from_text)


def _of_lines(text: str) -> list[Any]:
    rows, torn = [], dict[int, str]()
    for number, line in enumerate(text.splitlines(), 1):
        try:
            rows += [json.loads(line)] if line.strip() else []
        except ValueError:
            torn[number] = line
    if len(torn) > max(1, SELDOM * len(rows)) or not rows:
        number, line = next(iter(torn.items()), (1, text))
        raise ValueError(f"{len(torn)} lines are no JSON, line {number} first: {line[:60]!r}")
    for number, line in torn.items():
        warnings.warn(f"line {number} is cut off, and left out: {line[:60]!r}", stacklevel=5)
    return rows
