"""The section on where in the sequence the model predicts well, and how far back each head looks."""

from stagewise import plot
from stagewise.plot.heads import moved_most
from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.section import Blocks, Section
from stagewise.table import select

HEADS = 6
"""Heads whose profile over offsets is drawn."""

LOSS = (
    "Loss at every position, at five checkpoints from the first to the last. Look for later positions that become "
    "better than early ones: that is in-context learning. On repeated tokens, look for the fall where the "
    "repeated stretch begins."
)
OFFSETS = (
    "Attention at each offset (0 is the query itself), averaged over the scored queries, of the heads whose profile "
    "changed most, at five checkpoints. Look for a peak at offset 1, a previous-token head, and for one farther back: "
    "a head that looks at a fixed distance. An induction head has none where what it looks for lies another way back "
    "in every sequence."
)


def _profiles_section(measured: Measured) -> Blocks:
    """Return the loss at every position, and the attention at every offset."""
    blocks: Blocks = []
    if measured.has("LossByPosition.cross_entropy"):
        rows = select(measured.table, "LossByPosition", "cross_entropy")
        blocks.append(Plot("loss-by-position", {"": plot.loss_by_position(measured.table)}, rows, LOSS))
    if measured.has("OffsetProfile.mass"):
        rows = select(measured.table, "OffsetProfile", "mass")
        figure = plot.offset_profiles(measured.table, moved_most(rows, HEADS))
        blocks.append(Plot("offset-profile", {"": figure}, rows, OFFSETS))
    return blocks


SECTION = Section(
    "profiles",
    "Where in the sequence, and how far back",
    _profiles_section,
    ("LossByPosition.cross_entropy", "OffsetProfile"),
)
