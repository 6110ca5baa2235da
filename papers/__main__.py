"""Write PAPERS.md from the rows and the CSV files that they name: `python -m stagewise.papers`."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from stagewise.papers.opening import opening
from stagewise.papers.rows import ROOT, Entry, entries, sections, top
from stagewise.papers.verdict import Verdict

PAGE = ROOT / "PAPERS.md"
HEAD = "quantity | the paper | here | verdict\n--- | --- | --- | ---"


def page() -> str:
    """Return the page."""
    head, reading = top()
    parts = [head, opening(), reading]
    for name, section in sections().items():
        runs = groupby((entry for entry in entries() if entry.paper == name), key=lambda entry: entry.command)
        lines = [line for _, rows in runs for line in _lines(list(rows))]
        parts += [f"## {section['title']}", section["about"], "\n".join([HEAD, *lines])]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _lines(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield a line with the command and its runs, and a line for each of its rows."""
    runs = Counter(entry.runs for entry in entries).most_common(1)[0][0]
    yield f"`{entries[0].command.removeprefix('stagewise run ')}`, {runs}"
    for entry in entries:
        what = f"{entry.figure}: {entry.what}" if entry.figure else entry.what
        what += f" ({entry.runs})" if entry.runs != runs else ""
        here = "; ".join(each.text for each in entry.row.here) or "\N{EN DASH}"
        verdict = f"**{entry.verdict}**" if entry.verdict is Verdict.DIFFERS else entry.verdict
        yield " | ".join((what, _published(entry), here, f"{verdict}. {entry.note}" if entry.note else verdict))


def _published(entry: Entry) -> str:
    effect = f"from {'; '.join(dict.fromkeys(f'{each:g}' for each in entry.row.null))}" if any(entry.row.null) else ""
    texts = [each.text for each in entry.row.published]
    numbers = "; ".join(texts if len({*texts}) > 1 else texts[:1])
    return "; ".join(part for part in (numbers, effect, entry.says) if part)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf8")
    print(f"written: {PAGE}")
