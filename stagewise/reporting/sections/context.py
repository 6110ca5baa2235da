"""The section on how much context the model uses: its own restricted, and models trained on restricted contexts."""

from stagewise import plot
from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.section import Blocks, Section
from stagewise.table import select

RESTRICTED = (
    "KL from the model to itself with its attention restricted to the last c positions. Look for the step at which a"
    " curve is lowest and from which it rises for good: from there on the model uses more than c."
)
TRAINED = (
    "KL to models that were trained on windows of c positions only. Look at which curve is lowest: the "
    "model is closest to the one that knows as much context as it does."
)


def context_section(measured: Measured) -> Blocks:
    """Return the KL to the model with restricted context, and to models trained on short windows."""
    table, stages = measured.table, measured.stages
    blocks: Blocks = []
    if measured.has("RestrictedContextKL.kl"):
        rows = select(table, "RestrictedContextKL", "kl")
        axes = plot.restricted_context(table, stages)
        blocks.append(Plot("restricted-context", {"": axes}, rows, RESTRICTED))
    if trained := measured.families().get("trained"):
        rows = select(table, "KLToReference", "kl")
        axes = plot.kl_curves(table, trained, stages)
        blocks.append(Plot("trained-restricted", {"": axes}, rows[rows["reference"].isin(trained)], TRAINED))
    return blocks


SECTION = Section("context", "How much context is used", context_section, ("RestrictedContextKL", "KLToReference.kl"))
