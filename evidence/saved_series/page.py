"""The page: how many series are equal and refused, and a row for each way of saving."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from evidence.saved_series.trial import TOLERANCE, Row, Verdict

START = f"""# Record: series saved in many ways

`make series` trains small models, lets each tool save a few steps, and loads every step again by the tool's own
function. It opens the same files with `stagewise.open_series` and measures `Loss` on the same sequences. A series is
*equal* where all steps are there and no loss differs by more than {TOLERANCE:g} nats; weights of two bytes are computed
in float32 on both sides. It is *refused* where one line says why it cannot be opened.
"""


def page(rows: Sequence[Row]) -> str:
    """Return the page in Markdown."""
    count = Counter(row.verdict for row in rows)
    ways = {(row.tool, row.way) for row in rows}
    counts = ", ".join(f"{count[verdict]} {verdict}" for verdict in Verdict)
    share = f"**{len(rows)} series, {len(ways)} ways, {len({row.tool for row in rows})} writers: {counts}.**"
    lines = ["| written by | what | models | verdict | greatest difference, nats, or the line |", "| --- " * 5 + "|"]
    groups = groupby(rows, lambda row: (row.tool, row.way, row.verdict))
    lines += [_line(*key, [*members]) for key, members in groups]
    return "\n".join([START, share, "", *lines, ""])


def _line(tool: str, way: str, verdict: str, rows: Sequence[Row]) -> str:
    said = f"{max(float(row.said) for row in rows):.1g}" if verdict == Verdict.EQUAL else rows[0].said
    cells = tool, way, ", ".join(row.family for row in rows), verdict, said
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
