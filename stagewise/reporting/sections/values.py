"""The section on what each head writes, compared with features that the task's author names."""

import html

from stagewise import plot
from stagewise.plot.heads import moved_most
from stagewise.plot.quantities import quantity_of
from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.section import PANELS, Blocks, Section, left_out, never_missing
from stagewise.table import head_label, select

LOOK = {
    "cosine": "1 where the head writes this feature and nothing else",
    "projection": "how much of the feature the head writes; below zero it cancels what other heads write",
}


def _values_section(measured: Measured) -> Blocks:
    """Return the alignment of each head's value map with each feature."""
    table = measured.table
    blocks: Blocks = []
    for name, look in LOOK.items():
        if not measured.has(f"ValueAlignment.{name}"):
            continue
        rows = select(table, "ValueAlignment", name)
        panels = {
            head_label(*head): plot.value_alignment(table, *head, name, measured.stages)
            for head in moved_most(rows, PANELS)
        }
        label = html.escape(quantity_of(table, "ValueAlignment", name).label.capitalize())
        caption = f"{label}, for each head's value map: {look}. {left_out(rows, 'value moved')}"
        blocks.append(Plot(f"value-{name}", panels, rows, caption))
    return blocks


SECTION = Section("values", "What each head writes", _values_section, ("ValueAlignment",), applies=never_missing)
