"""The section on further scores of heads: how many keys, how far, how many dimensions."""

import html

from stagewise import plot
from stagewise.plot.heads import moved_most
from stagewise.plot.quantities import quantity_of
from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.section import PANELS, Blocks, Section
from stagewise.table import select

SCORES = (("EffectiveSupport", "keys"), ("AttentionDistance", "distance"), ("ParticipationRatio", "dimensions"))


def _head_scores_section(measured: Measured) -> Blocks:
    """Return a figure a score, of the heads in which it changed most."""
    table = measured.table
    blocks: Blocks = []
    for probe, name in SCORES:
        if measured.has(f"{probe}.{name}"):
            rows = select(table, probe, name)
            label = html.escape(quantity_of(table, probe, name).label.capitalize())
            caption = f"{label} of each head over training; drawn are those in which it changed most."
            axes = plot.head_scores(table, probe, name, moved_most(rows, PANELS), measured.stages)
            blocks.append(Plot(f"heads-{name}", {"": axes}, rows, caption))
    return blocks


SECTION = Section(
    "head-scores",
    "How many keys, how far, how many dimensions",
    _head_scores_section,
    tuple(f"{probe}.{name}" for probe, name in SCORES),
)
