"""Rows of judged answers: printed as they come, and as lines of a table in Markdown."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar


class Judged(Protocol):
    """What was asked, what was said, the verdict, and the reasons against the answer."""

    @property
    def name(self) -> str: ...
    @property
    def said(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def reasons(self) -> Sequence[str]: ...


Row = TypeVar("Row", bound=Judged)


def told(rows: Iterable[Row]) -> list[Row]:
    """Print each row as it comes, and at the end how many there are of each verdict; return them."""
    kept = []
    for row in rows:
        print(row.verdict.upper(), row.name, "|", row.said, "|", "; ".join(row.reasons), flush=True)
        kept.append(row)
    print(dict(Counter(row.verdict for row in kept)))
    return kept


def line(row: Judged, *cells: str) -> str:
    """Return a line of a table: the cells, and the verdict with its reasons.

    >>> class Asked: name, said, verdict, reasons = "a", "b", "wrong", ["two *events*"]
    >>> line(Asked(), "a", "b | c")
    '| a | b \\\\| c | wrong: two \\\\*events\\\\* |'
    """
    verdict = f"{row.verdict}: {'; '.join(row.reasons)}" if row.reasons else row.verdict
    return f"| {' | '.join(map(_cell, (*cells, verdict)))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("*", "\\*").replace("<", "&lt;")
