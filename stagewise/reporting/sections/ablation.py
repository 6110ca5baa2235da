"""The section on which heads are needed: what ablating each one does, beside a matched control."""

import html

from stagewise import plot
from stagewise.reporting._figure import Plot
from stagewise.reporting._html import wording
from stagewise.reporting._measured import Measured
from stagewise.reporting._section import Blocks, Section
from stagewise.table import select


def _ablation_section(measured: Measured) -> Blocks:
    """Return a matrix and its control for each kind of ablation."""
    table = measured.table
    blocks: Blocks = []
    if not measured.has("HeadAblation.kl"):
        return blocks
    for kind in select(table, "HeadAblation", "kl")["kind"].unique():
        rows = select(table, "HeadAblation", "kl", kind=kind)
        figure = plot.ablation_with_control(table, kind, stages=measured.stages)
        caption = wording("ablation", "ablation", kind=html.escape(str(kind)))
        blocks.append(Plot(f"ablation-{kind}", {"": figure}, rows, caption))
    return blocks


SECTION = Section("ablation", "Which heads are needed", _ablation_section, ("HeadAblation",))
