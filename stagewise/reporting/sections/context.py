"""The sections on how much context the model uses: its own is restricted, or models trained on less stand beside it."""

from stagewise import plot
from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured
from stagewise.reporting._section import Blocks, Section, never_missing
from stagewise.table import select

RESTRICTED = (
    "KL from the model to itself with its attention restricted to the last c positions. Look for where a "
    "curve is lowest and from where it rises for good: from there on the model uses more than c."
)
TRAINED = (
    "KL to models that were trained on windows of c positions only. Look at which curve is lowest: the "
    "model is closest to the one that knows as much context as it does."
)


def _restricted(measured: Measured) -> Blocks:
    rows = select(measured.table, "RestrictedContextKL", "kl")
    axes = plot.restricted_context(measured.table, measured.stages)
    return [Plot("restricted-context", {"": axes}, rows, RESTRICTED)]


def _trained(measured: Measured) -> Blocks:
    trained = measured.families()["trained"]
    if not trained:
        return []
    rows = select(measured.table, "KLToReference", "kl")
    axes = plot.kl_curves(measured.table, trained, measured.stages)
    return [Plot("trained-restricted", {"": axes}, rows[rows["reference"].isin(trained)], TRAINED)]


CONTEXT = Section("context", "How much context is used", _restricted, ("RestrictedContextKL.kl",))
TRAINED_CONTEXT = Section(
    "trained-context",
    "Beside models trained on less context",
    _trained,
    ("KLToReference.kl",),
    applies=never_missing,
)
