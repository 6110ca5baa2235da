"""The page: how many answers are right, beside those of other searches, and a row a record."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from evidence.judged_rows import line
from evidence.records.judging import Verdict

START = """# Records

Curves, logs and results that others published, with truths written down beforehand, the first sentences of stagewise
on each, and whether they are right. `python -m evidence.records FOLDER` asks `stagewise stages FILE --json`, judges and
writes this page. FOLDER has the records, their truths and their sources; no record is copied here.

An answer is judged from its data, never from its words. It is *right* if it tells every event that has to be told,
within its interval, in its direction, of enough of its curves, and nothing else. It is *incomplete* if such an event is
missing or too vague, *wrong* if it tells one that was none, or in a curve that is none. Otherwise it is *refused*.
"""

OTHERS = """## Other searches

The same judge on the same curves: those that stagewise reads as curves that learn, without settings, errors and counts,
averaged in at most 160 stretches. Each search has its own defaults; `losslint` reads the file, where it finds a loss.
"""


class Row(NamedTuple):
    """A record, its source, its truth, what was said, the verdict, the reasons against it, and others' verdicts."""

    name: str
    source: str
    truth: str
    said: str
    verdict: str
    reasons: list[str]
    others: dict[str, str]


def page(rows: Sequence[Row], absent: Sequence[str] = ()) -> str:
    """Return the page in Markdown; `absent` are searches whose package is not installed."""
    of = Counter(row.verdict for row in rows)
    counts = ", ".join(f"{of[verdict]} {verdict}" for verdict in list(Verdict)[1:])
    lines = ["| record | source | truth | first sentences | verdict |", "| --- | --- | --- | --- | --- |"]
    lines += [line(row, row.name, row.source, row.truth, row.said) for row in rows]
    share = f"**{of[Verdict.RIGHT]} of {len(rows)} are right; {counts}.**"
    missing = [f"Not installed: {', '.join(absent)}.", ""] if absent else []
    return "\n".join([START, share, "", *lines, "", OTHERS, *_others(rows), "", *missing])


def _others(rows: Sequence[Row]) -> list[str]:
    """Return the table of the verdicts of all searches."""
    verdicts = {"stagewise": Counter(row.verdict for row in rows)}
    for row in rows:
        for name, verdict in row.others.items():
            verdicts.setdefault(name, Counter())[verdict] += 1
    header = ["search", "records", *Verdict, "right, %"]
    lines = [f"| {' | '.join(header)} |", "| --- |" + " ---: |" * (len(header) - 1)]
    for name, of in verdicts.items():
        numbers = [of.total(), *(of[verdict] for verdict in Verdict), round(100 * of[Verdict.RIGHT] / of.total())]
        lines.append(f"| {name} | {' | '.join(map(str, numbers))} |")
    return lines
