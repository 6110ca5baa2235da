"""The sections on places in the sequence: what is copied from the context, where it predicts well, how far it looks."""

from stagewise import plot
from stagewise.plot.heads import moved_most
from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured
from stagewise.reporting._section import Blocks, Section, never_missing
from stagewise.table import select

SCORES = (("Copying", "accuracy"), ("Copying", "gain"), ("InContextLearning", "score"))

LOOK = {
    "Copying": (
        "Of random tokens that come twice, the second can be predicted by copying alone: look for a sudden rise of the "
        "accuracy. "
    ),
    "InContextLearning": (
        "Look for an in-context learning score that falls below zero: late tokens are then better predicted than early "
        "ones. "
    ),
}
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


def _copying(measured: Measured) -> Blocks:
    """Return the scores that were measured, one below the other."""
    scores = [(probe, name) for probe, name in SCORES if measured.has(f"{probe}.{name}")]
    look = "".join(LOOK[probe] for probe in dict.fromkeys(probe for probe, _ in scores))
    caption = f"{look}Ribbons: 95&nbsp;% intervals over the probe batch."
    return [Plot("copying", {"": plot.scalars(measured.table, scores, measured.stages)}, measured.table, caption)]


def _profiles(measured: Measured) -> Blocks:
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


COPYING = Section(
    "copying", "What is copied from the context", _copying, tuple(map(".".join, SCORES)), applies=never_missing
)
PROFILES = Section(
    "profiles",
    "Where in the sequence, and how far back",
    _profiles,
    ("LossByPosition.cross_entropy", "OffsetProfile"),
)
