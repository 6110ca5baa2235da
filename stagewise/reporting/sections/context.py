"""The sections on context: how much the model uses, what it copies, where it predicts well, how far it looks back."""

from stagewise import plot
from stagewise.plot.heads import moved_most
from stagewise.reporting._figure import Plot
from stagewise.reporting._html import wording
from stagewise.reporting._measured import Measured
from stagewise.reporting._section import Blocks, Section, never_missing
from stagewise.table import select

SCORES = (("Copying", "accuracy"), ("Copying", "gain"), ("InContextLearning", "score"))

HEADS = 6
"""Heads whose profile over offsets is drawn."""


def _restricted(measured: Measured) -> Blocks:
    rows = select(measured.table, "RestrictedContextKL", "kl")
    axes = plot.restricted_context(measured.table, measured.stages)
    return [Plot("restricted-context", {"": axes}, rows, wording("context", "restricted"))]


def _trained(measured: Measured) -> Blocks:
    trained = measured.families()["trained"]
    if not trained:
        return []
    rows = select(measured.table, "KLToReference", "kl")
    axes = plot.kl_curves(measured.table, trained, measured.stages)
    return [
        Plot("trained-restricted", {"": axes}, rows[rows["reference"].isin(trained)], wording("context", "trained"))
    ]


def _copying(measured: Measured) -> Blocks:
    """Return the scores that were measured, one below the other."""
    scores = [(probe, name) for probe, name in SCORES if measured.has(f"{probe}.{name}")]
    caption = wording("context", *dict.fromkeys(probe for probe, _ in scores), "ribbons")
    return [Plot("copying", {"": plot.scalars(measured.table, scores, measured.stages)}, measured.table, caption)]


def _profiles(measured: Measured) -> Blocks:
    """Return the loss at every position, and the attention at every offset."""
    blocks: Blocks = []
    if measured.has("LossByPosition.cross_entropy"):
        rows = select(measured.table, "LossByPosition", "cross_entropy")
        blocks.append(
            Plot("loss-by-position", {"": plot.loss_by_position(measured.table)}, rows, wording("context", "loss"))
        )
    if measured.has("OffsetProfile.mass"):
        rows = select(measured.table, "OffsetProfile", "mass")
        figure = plot.offset_profiles(measured.table, moved_most(rows, HEADS))
        blocks.append(Plot("offset-profile", {"": figure}, rows, wording("context", "offsets")))
    return blocks


CONTEXT = Section("context", "How much context is used", _restricted, ("RestrictedContextKL.kl",))
TRAINED_CONTEXT = Section(
    "trained-context", "Beside models trained on less context", _trained, ("KLToReference.kl",), applies=never_missing
)
COPYING = Section(
    "copying", "What is copied from the context", _copying, tuple(map(".".join, SCORES)), applies=never_missing
)
PROFILES = Section(
    "profiles", "Where in the sequence, and how far back", _profiles, ("LossByPosition.cross_entropy", "OffsetProfile")
)
