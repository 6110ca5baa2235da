"""A figure's published numbers beside ours: one row a number, printed as a table, written as CSV beside the drawing."""

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import stats

from stagewise.checkpoints.run_folder import write
from stagewise.statistics import LEVEL

COLUMNS = ("quantity", "published", "ours", "interval", "remark")

_WIDTH = 34
"""Characters of a cell that is printed, before it is wrapped."""


class Result(NamedTuple):
    """A figure, the published numbers beside ours, and the report of one of its runs where there is one.

    `cells` are rows of the same columns, of single settings, too many to read: they are written and not printed.
    """

    figure: Figure
    numbers: pd.DataFrame
    report: Path | None = None
    cells: pd.DataFrame | None = None


def number(quantity: str, published: str, ours: object, interval: str = "", remark: str = "") -> dict[str, str]:
    """Return a row of the table of published numbers.

    Args:
        quantity: what it is, with its unit.
        published: what the paper gives; "-" where it gives nothing.
        ours: the number here: a float is rounded to four digits.
        interval: in which it lies; of 95 % over seeds or by the fit, or between two evaluations of one run.
        remark: what the reader must know, as the sizes.

    >>> number("loss, nats", "0.5", 0.50012345, bounds(0.4, 0.6))["ours"], bounds(0.4, 0.6)
    ('0.5001', '[0.4, 0.6]')
    """
    text = f"{ours:.4g}" if isinstance(ours, float) else str(ours)
    return dict(zip(COLUMNS, (quantity, published, text, interval, remark), strict=True))


def bounds(lo: int | float, hi: int | float) -> str:
    """Return an interval as text, with three digits; nothing where there is none, or all values are one."""
    return "" if pd.isna(lo) or pd.isna(hi) or lo == hi else f"[{lo:.3g}, {hi:.3g}]"


class _Mean(NamedTuple):
    """The mean over seeds, with its 95 % interval (Student's t), which a single value does not have."""

    mean: float
    lo: float
    hi: float


def mean_over(values: Sequence[float] | np.ndarray) -> _Mean:
    """Return the mean of some seeds' values and its interval; nan of no values.

    >>> [round(each, 2) for each in mean_over([2.0, 3.0, 4.0])]
    [3.0, 0.52, 5.48]
    """
    seeds = np.asarray(values, dtype=float)
    if not seeds.size:
        return _Mean(np.nan, np.nan, np.nan)
    mean = float(seeds.mean())
    if len(seeds) < 2:
        return _Mean(mean, np.nan, np.nan)
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(seeds) - 1) * stats.sem(seeds))
    return _Mean(mean, mean - half, mean + half)


def over_seeds(quantity: str, published: str, values: Sequence[float] | np.ndarray) -> dict[str, str]:
    """Return a row of the mean of some seeds' values, with its interval.

    >>> over_seeds("loss, nats", "0.5", [0.5, 0.6])["ours"]
    '0.550'
    """
    mean, lo, hi = mean_over(values)
    return number(quantity, published, f"{mean:.3f}", bounds(lo, hi), f"{len(values)} seeds" if len(values) > 1 else "")


def over_some(
    quantity: str,
    published: str,
    values: Sequence[int | float] | np.ndarray,
    *,
    of: int | None = None,
    within: tuple[float, float] | None = None,
) -> dict[str, str]:
    """Return a row of the mean of those seeds' values that are finite, and how many these are; never of none.

    Args:
        quantity: what it is.
        published: what the paper gives.
        values: a seed each; not finite where it has none.
        of: how many seeds there are, where not each has a place among the values.
        within: quantiles that stand for the interval, between which a further value lies; None for that of the mean.

    >>> over_some("step", "-", [3.0, 5.0, float("inf")])["ours"], over_some("step", "-", [3.0, float("nan")])["remark"]
    ('4', '1 of 2 seeds')
    """
    seeds = np.asarray(values, dtype=float)
    came, remark = seeds[np.isfinite(seeds)], f"{np.isfinite(seeds).sum()} of {of or len(seeds)} seeds"
    if not came.size:
        return number(quantity, published, "never", remark=remark)
    mean, lo, hi = mean_over(came) if within is None else (came.mean(), *np.quantile(came, within))
    return number(quantity, published, f"{mean:.3g}", bounds(lo, hi), remark)


def table_of(rows: Sequence[dict[str, str]]) -> pd.DataFrame:
    """Return rows of `number` as the table that is printed and written."""
    return pd.DataFrame(list(rows), columns=list(COLUMNS))


def in_words(numbers: pd.DataFrame) -> str:
    """Return the table as text, long cells wrapped; a column without entries is left out."""
    names = [name for name in numbers if (numbers[name] != "").any()]
    cells = [names, *numbers[names].to_numpy().tolist()]
    wrapped = [[textwrap.wrap(str(cell), _WIDTH) or [""] for cell in row] for row in cells]
    widths = [max(len(line) for row in wrapped for line in row[i]) for i in range(len(names))]
    lines = []
    for row in wrapped:
        for i in range(max(map(len, row))):
            parts = [(cell[i] if i < len(cell) else "").ljust(width) for cell, width in zip(row, widths, strict=True)]
            lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def say_cost(figure: object, cost: str | None) -> None:
    """Say, before any work, what a figure takes, in words; nothing where that is not known."""
    if cost is not None:
        print(f"figure {figure} takes {cost} of one core; what is finished already is not done again", file=sys.stderr)


def save(result: Result, path: Path) -> None:
    """Write the drawing as PNG and SVG and the numbers and cells as CSV, with these endings in place of the path's."""
    for kind in ("png", "svg"):
        write(path.with_suffix(f".{kind}"), lambda partial, kind=kind: _save_figure(result.figure, partial, kind))  # type: ignore[misc]
    rows = [result.numbers] if result.cells is None else [result.numbers, result.cells]
    write_csv(path.with_suffix(".csv"), pd.concat(rows))


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table as CSV, whole or not at all."""
    write(path, lambda partial: table.to_csv(partial, index=False))


def show(result: Result, path: Path) -> None:
    """Write a figure and its numbers, print the numbers, and print where everything is."""
    save(result, path)
    print(in_words(result.numbers))
    cells = "" if result.cells is None else f", and in it {len(result.cells)} rows of single cells"
    print(f"numbers: {path.with_suffix('.csv')}{cells}")
    print(f"figure: {path.with_suffix('.png')}")
    if result.report is not None:
        print(f"report: {result.report}")


def _save_figure(figure: Figure, path: Path, kind: str) -> None:
    """Write a drawing in a format; an SVG without the date and without drawn names: one drawing is one file."""
    with matplotlib.rc_context({"svg.hashsalt": path.name}):
        figure.savefig(path, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
