"""The section on how widely each head attends."""

from stagewise import plot
from stagewise.plot.heads import moved_most
from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.section import PANELS, Blocks, Section, left_out
from stagewise.table import select

ENTROPY = (
    "Entropy of each head's attention, averaged over the scored queries; exp(entropy) keys would hold it "
    "if they had equal shares. Look for heads that narrow down, and when. "
)


def _entropy_section(measured: Measured) -> Blocks:
    """Return the entropy of each head over training."""
    rows = select(measured.table, "AttentionEntropy", "entropy")
    axes = plot.entropy(measured.table, moved_most(rows, PANELS), measured.stages)
    return [Plot("entropy", {"": axes}, rows, ENTROPY + left_out(rows, "entropy moved"))]


SECTION = Section("entropy", "How widely each head attends", _entropy_section, ("AttentionEntropy.entropy",))
