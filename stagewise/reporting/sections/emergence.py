"""The report's section on emergence: the plateau, the abrupt rise, and the attention that moves with it."""

import html

from stagewise import plot
from stagewise.findings._order import events, rise_of
from stagewise.plot.emergence import DRAWN, NAMED
from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured
from stagewise.reporting._prose import html_table
from stagewise.reporting._section import Blocks, Section
from stagewise.words import _heads as head_words
from stagewise.words._times import written

CAPTION = (
    "From top to bottom, over the same steps: the loss; the accuracy (black) and the attention of each head along each "
    "relation; where it was measured, the cosine of what each head's weights write with a feature. Look for a plateau, "
    "for the attention that rises with the accuracy, and for weights that moved long before. Shaded: the accuracy's "
    "rise from a tenth to nine tenths. Ribbons: 95&nbsp;% intervals over the probe batch. "
    f"Of more than {DRAWN} curves those that moved most are drawn, at most {NAMED} of them named; all are in the table."
)


def _emergence_section(measured: Measured) -> Blocks:
    """Say when what emerged, first to last, and draw the curves."""
    table = measured.table
    timeline = events(table)
    blocks: Blocks = [f"<p>{html.escape(head_words.emergence(timeline, rise_of(table)))}</p>"]
    if timeline:
        rows = [[event.kind, str(event), written(event.interval.lo), written(event.interval.hi)] for event in timeline]
        blocks.append(html_table(["of", "event", "after step", "by step"], rows))
    return [*blocks, Plot("emergence", {"": plot.emergence(table)}, table, CAPTION)]


def _may_emerge(measured: Measured) -> bool:
    return measured.has_relations and not measured.has("Loss.squared_error")


SECTION = Section(
    "emergence",
    "What emerged",
    _emergence_section,
    ("Accuracy.accuracy", "AttentionTo.along"),
    every=True,
    applies=_may_emerge,
    reads=("ValueAlignment.cosine", "AttentionTo.along", "Loss.cross_entropy", "Accuracy.accuracy"),
)
