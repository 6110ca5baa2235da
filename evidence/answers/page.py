"""The page: how many answers are right, and a row a case."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from evidence.judged_rows import line

START = """# Answers

Runs and logs whose truth is known, the first sentences of stagewise on each, and whether they are right. `make answers`
trains, measures, asks and writes this page; the cases are in `evidence/answers/`.

An answer is judged from its events, never from its words. It is *right* if it has as many transitions as there were,
each with the true half-way time in its 95 % interval and its heads where they are known, tells gains from losses, and
names what else happened. It is *wrong* if it tells a transition or a head that was none, or none where there was one.
Otherwise it is *incomplete*.
"""


class Row(NamedTuple):
    """A case, its truth, what was said, the verdict, and the reasons against it."""

    name: str
    truth: str
    said: str
    verdict: str
    reasons: list[str]


def page(rows: Sequence[Row]) -> str:
    """Return the page in Markdown."""
    asked = [row for row in rows if row.verdict != "skipped"]
    of = Counter(row.verdict for row in asked)
    count = f"{of['right']} of {len(asked)} are right, {of['incomplete']} incomplete, {of['wrong']} wrong."
    lines = ["| case | truth | first sentences | verdict |", "| --- | --- | --- | --- |"]
    lines += [line(row, row.name, row.truth, row.said) for row in asked]
    left = [row.name for row in rows if row.verdict == "skipped"]
    others = [f"Not asked this time: {', '.join(left)}.", ""] if left else []
    return "\n".join([START, f"**{count}**", "", *others, *lines, ""])
