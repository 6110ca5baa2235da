"""The section on models that were trained on a restricted context, to compare the model with."""

from stagewise import plot
from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.section import Blocks, Section, never_missing
from stagewise.table import select

TRAINED = (
    "KL to models that were trained on windows of c positions only. Look at which curve is lowest: the "
    "model is closest to the one that knows as much context as it does."
)


def _trained_context_section(measured: Measured) -> Blocks:
    """Return the KL to each of these models, where there are any."""
    trained = measured.families()["trained"]
    if not trained:
        return []
    rows = select(measured.table, "KLToReference", "kl")
    axes = plot.kl_curves(measured.table, trained, measured.stages)
    return [Plot("trained-restricted", {"": axes}, rows[rows["reference"].isin(trained)], TRAINED)]


SECTION = Section(
    "trained-context",
    "Beside models trained on less context",
    _trained_context_section,
    ("KLToReference.kl",),
    applies=never_missing,
)
