"""The section on the lineage of attention: the river of heads, and how kinds come and go."""

import html

from stagewise import plot
from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.prose import LISTED, html_table
from stagewise.reporting.section import Blocks, Section, never_missing
from stagewise.words.lineage import each_event

RIVER = (
    "One line for each head, in the bed of the kind of its attention pattern; the width of a bed is its number of "
    "heads. Look for heads that leave a common bed, one after another. Right: the kinds, by what they attend to most."
)
NONE = "<p>No kind of attention is born, splits, merges, changes or dies in this run.</p>"


def _lineage_section(measured: Measured) -> Blocks:
    """Return the river of heads and the events in it."""
    lineage = measured.lineage
    if lineage is None:
        return []
    shown = lineage.events.head(2 * LISTED)
    rows = [
        [f"{row['last_step_before']} to {row['first_step_after']}", row["event"], text]
        for row, text in zip(shown.to_dict("records"), each_event(shown, lineage.kinds), strict=True)
    ]
    more = len(lineage.events) - len(rows)
    blocks: Blocks = [Plot("lineage", {"": plot.river(lineage, measured.stages)}, lineage.members, RIVER)]
    blocks.append(html_table(["between steps", "event", "what happened"], rows) if rows else NONE)
    return [*blocks, *([f"<p>{html.escape(f'And {more} more events.')}</p>"] if more > 0 else [])]


SECTION = Section("lineage", "Where the kinds of attention come from", _lineage_section, applies=never_missing)
