"""The section on local learning coefficients: how degenerate the loss is around each checkpoint."""

from stagewise import plot
from stagewise.findings.unsettled import unsettled, unsettled_in_words
from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.section import Blocks, Section, never_missing

LOOK_FOR = (
    "The local learning coefficient of the loss on the probe batch around each checkpoint, with 95 % intervals over "
    "the chains: how fast the loss grows when the weights are perturbed. A larger coefficient is less degenerate: more "
    "directions matter. Dashed: how far the chains still moved. Where training still moves fast, a chain finds lower "
    "losses, and the coefficient is small or negative and has no such meaning (far below 0 it is only in the table). "
    "Look for a level that changes at a boundary of stages and stays; its height depends on the sampler and the batch."
)
HEADS = "Below: of each head's weights alone, all others as they are. "


def _degeneracy_section(measured: Measured) -> Blocks:
    """Return the coefficients over training."""
    rows = measured.coefficients
    if rows is None or rows.empty:
        return []
    words = f"{LOOK_FOR} {HEADS if (rows['quantity'] == 'of_head').any() else ''}{unsettled_in_words(unsettled(rows))}"
    figure = plot.learning_coefficients(rows, measured.stages)
    return [Plot("learning-coefficients", {"": figure}, rows, words.strip())]


SECTION = Section("degeneracy", "How degenerate the loss is", _degeneracy_section, applies=never_missing)
