"""The section on how much context the model uses: what it loses when its own context is restricted."""

from stagewise import plot
from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.section import Blocks, Section
from stagewise.table import select

RESTRICTED = (
    "KL from the model to itself with its attention restricted to the last c positions. Look for the step at which a"
    " curve is lowest and from which it rises for good: from there on the model uses more than c."
)


def _context_section(measured: Measured) -> Blocks:
    """Return the KL to the model with restricted context, a curve a context."""
    rows = select(measured.table, "RestrictedContextKL", "kl")
    axes = plot.restricted_context(measured.table, measured.stages)
    return [Plot("restricted-context", {"": axes}, rows, RESTRICTED)]


SECTION = Section("context", "How much context is used", _context_section, ("RestrictedContextKL.kl",))
