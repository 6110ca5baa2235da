"""The section on copying: how well repeated tokens are predicted, and late tokens beside early ones."""

from stagewise import plot
from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.section import Blocks, Section, never_missing

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


def _copying_section(measured: Measured) -> Blocks:
    """Return the scores that were measured, one below the other."""
    scores = [(probe, name) for probe, name in SCORES if measured.has(f"{probe}.{name}")]
    look = "".join(LOOK[probe] for probe in dict.fromkeys(probe for probe, _ in scores))
    caption = f"{look}Ribbons: 95&nbsp;% intervals over the probe batch."
    return [Plot("copying", {"": plot.scalars(measured.table, scores, measured.stages)}, measured.table, caption)]


SECTION = Section(
    "copying",
    "What is copied from the context",
    _copying_section,
    tuple(f"{probe}.{name}" for probe, name in SCORES),
    applies=never_missing,
)
