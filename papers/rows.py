"""The rows of PAPERS.md: `rows.toml`, with the numbers that each row names read from the CSV of its command."""

import math
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, cast

import pandas as pd

from stagewise.papers.published import mean_over
from stagewise.papers.verdict import Number, Row, Verdict, exactly, numbers_in, verdict

ROOT = Path(__file__).resolve().parents[1]
NUMBERS = ROOT / "docs" / "numbers"
OF_THE_PAGE = "tests/papers/test_rows.py::test_orders_and_signs_stand_in_the_numbers"
COUNTED = {
    "groups": r"I\(\d\)",
    "on I(1)": r"L\dH\d I\(1\)",
    "on I(2)": r"L\dH\d I\(2\)",
    "heads": r"L\dH\d \d+",
    "bands": r"lags \d+ to \d+",
}
"""What can be counted in a cell: different matches of a pattern."""


@dataclass(frozen=True)
class Entry:
    """A row of the page: its numbers, and what stands beside them."""

    paper: str
    figure: str
    what: str
    says: str
    runs: str
    command: str
    csv: str
    test: str
    """The test that holds the shape; the page's own one, of all orders and signs, where no other does."""

    note: str
    main: str
    """What the page's opening says of it, under its verdict; nothing where it says nothing."""

    key: str
    """Its name among the three numbers of the opening."""

    row: Row

    @property
    def verdict(self) -> Verdict:
        """The verdict, from the row's numbers."""
        return verdict(self.row)


def top() -> tuple[str, str]:
    """Return the title of the page, and how its rows are to be read."""
    file = _file()
    return str(file["head"]), str(file["reading"])


@cache
def sections() -> dict[str, dict[str, str]]:
    """Return each paper's title and what a reader has to know about its rows."""
    return {name: section for name, section in _file().items() if name not in ("head", "reading", "run")}


@cache
def entries() -> tuple[Entry, ...]:
    """Return every row, with its numbers."""
    return tuple(_entry(run, fields) for run in _file()["run"] for fields in run["rows"])


def _file() -> dict[str, Any]:
    return tomllib.loads((ROOT / "papers" / "rows.toml").read_text(encoding="utf8"))


def _entry(run: dict[str, Any], fields: dict[str, Any]) -> Entry:
    published = tuple(_published(text, fields.get("read", "")) for text in fields.get("published", ()))
    here = tuple(_measured(run["csv"], fields)) if "lines" in fields else ()
    null = fields.get("null", 0.0)
    nulls = tuple(null) if isinstance(null, list) else (float(null),) * len(published)
    if published and here and not len(published) == len(here) == len(nulls):
        raise ValueError(f"{fields['what']}: {len(published)} published numbers for {len(here)} here")
    row = Row(here, published, nulls, fields.get("shape", ""), tuple(fields.get("length", ())))
    given = {name: fields.get(name, "") for name in ("figure", "says", "note", "main", "key")}
    given |= {"runs": fields.get("runs", run["runs"]), "test": fields.get("test", OF_THE_PAGE)}
    return Entry(run["paper"], what=fields["what"], command=run["command"], csv=run["csv"], row=row, **given)


def _published(text: str, read: str) -> Number:
    """Return a published number; `read` says how far it may lie from what is written, `1%` as a share."""
    (number,) = numbers_in(text)
    if not read or number.lo != number.hi or number.text == "never":
        return number
    return replace(number, slack=0.01 * float(read[:-1]) * abs(number.value) if read.endswith("%") else float(read))


def _measured(csv: str, fields: dict[str, Any]) -> Iterator[Number]:
    """Yield the numbers of the lines of a CSV that each pattern names, or their mean.

    A pattern is how a line's quantity begins, `*` stands for any text, `law > exponent` for the lines that begin with
    a dash below it. Behind `->` stands which numbers of the cell, counted from 1, or what is counted in it.
    """
    for pattern in fields["lines"]:
        name, _, pick = pattern.partition(" -> ")
        found = [number for line in _lines(csv, name) for number in _picked(line, pick)]
        if not found:
            raise ValueError(f"no line of {csv} begins with {name}")
        if fields.get("mean"):
            yield _mean([number.value for number in found])
        else:
            yield from found


def _mean(values: list[float]) -> Number:
    came = [value for value in values if math.isfinite(value)]
    if 0 < len(came) < len(values):
        some = _mean(came)
        return replace(some, text=f"{some.text} in {len(came)} of {len(values)}", complete=False)
    if values and not came:
        return exactly(math.inf, "never")
    mean, *ends = mean_over(values)
    lo, hi = ends if len({*values}) > 1 else (mean, mean)
    texts = [f"{each:.0f}" if abs(each) >= 100 else f"{each:.3g}" for each in (mean, lo, hi)]
    return Number(texts[0] if lo == hi else f"{texts[0]} [{texts[1]},{texts[2]}]", mean, lo, hi)


def _lines(csv: str, name: str) -> Iterator[dict[str, str]]:
    parent = ""
    table = pd.read_csv(NUMBERS / f"{csv}.csv", dtype=str, keep_default_na=False)
    for line in cast(list[dict[str, str]], table.to_dict("records")):
        below = line["quantity"].startswith("- ")
        parent = parent if below else line["quantity"]
        full = f"{parent} > {line['quantity'][2:]}" if below else parent
        if below == (" > " in name) and fnmatchcase(full, f"{name}*"):
            yield line


def _picked(line: dict[str, str], pick: str) -> list[Number]:
    if pick in COUNTED:
        count = len({*re.findall(COUNTED[pick], line["ours"])})
        return [exactly(float(count), str(count))]
    numbers = numbers_in(line["ours"])
    if pick:
        places = [int(each) - 1 for each in pick.split(",")]
        return [numbers[place] if place < len(numbers) else exactly(math.inf, "never") for place in places]
    some = re.match(r"(\d+) of (\d+) seeds", line["remark"])
    complete = some is None or some[1] in (some[2], "0")
    numbers = [replace(each, complete=complete) for each in numbers]
    if line["interval"] and len(numbers) == 1:
        lo, hi = numbers_in(line["interval"])
        text = f"{numbers[0].text} {line['interval'].replace(', ', ',')}"
        numbers = [replace(numbers[0], text=text, lo=lo.value, hi=hi.value, slack=0.0)]
    if not complete and some:
        numbers = [replace(each, text=f"{each.text} in {some[1]} of {some[2]}") for each in numbers]
    return numbers
