"""The section that shows attention at each boundary of stages and at the end in circuitsvis."""

from stagewise.reporting.measured import Measured
from stagewise.reporting.section import Blocks, Section, never_missing
from stagewise.reporting.viewer import MAPS, circuitsvis_view

CIRCUITSVIS = "<p>Attention as circuitsvis shows it. Click on a head to enlarge it, point at a token to follow it.</p>"


def _circuitsvis_section(measured: Measured) -> Blocks:
    """Return circuitsvis's views, and the script that fills them."""
    return [CIRCUITSVIS, *circuitsvis_view(measured)]


SECTION = Section(
    "last-checkpoint",
    "Each boundary in circuitsvis",
    _circuitsvis_section,
    MAPS,
    applies=never_missing,
)
