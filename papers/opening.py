"""What PAPERS.md opens with: per paper what holds, what does not, what is undecided, and its three numbers."""

from collections import Counter
from collections.abc import Iterator

from stagewise.papers.rows import Entry, entries, sections
from stagewise.papers.verdict import Verdict

GROUPS = {
    "Holds": (Verdict.AGREES, Verdict.IN_SHAPE),
    "Does not hold": (Verdict.DIFFERS,),
    "Undecided": (Verdict.UNDECIDED, Verdict.NOT_RUN),
}
"""The verdicts behind each word."""

HEAD = "number | the paper | here | verdict\n--- | --- | --- | ---"


def opening() -> str:
    """Return what is said of each paper, rows' own statements under their computed verdicts, and a table of numbers.

    A row of `rows.toml` is stated where it has a `main`, and its numbers are shown where it has a `key`.
    """
    numbers = "\n".join([HEAD, *(_line(entry) for entry in entries() if entry.key)])
    return "\n\n".join([*map(_of_paper, sections()), numbers])


def _of_paper(name: str) -> str:
    of_paper = [entry for entry in entries() if entry.paper == name]
    count = Counter(entry.verdict for entry in of_paper)
    counts = ", ".join(f"{each} {count[each]}" for each in Verdict)
    title = sections()[name]["title"].partition(":")[0]
    return f"**{title}** ({counts}). " + " ".join(_stated(of_paper))


def _stated(of_paper: list[Entry]) -> Iterator[str]:
    for word, verdicts in GROUPS.items():
        statements = [_statement(entry) for entry in of_paper if entry.main and entry.verdict in verdicts]
        if statements:
            yield f"*{word}*: {'; '.join(statements)}."


def _statement(entry: Entry) -> str:
    return f"{entry.main} (smaller)" if "smaller" in entry.runs else entry.main


def _line(entry: Entry) -> str:
    published = "; ".join(dict.fromkeys(each.text for each in entry.row.published)) or entry.says
    here = "; ".join(each.text for each in entry.row.here)
    return " | ".join((entry.key, published, here, entry.verdict))
