"""The section on causes: how much later each transition came in runs that continued with a head held."""

from stagewise import plot
from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.section import Blocks, Section, never_missing

DELAYS = (
    "How many optimiser steps later each transition came where a head was held in training from a step on, with its "
    "95 % interval; > n: it no longer came, at least n steps later. out: the head writes nothing; weights, pattern: "
    "these stay as they were; uniform: it attends uniformly; on a relation: it attends to that only; kick: the "
    "control, a push of the head's norm in a random direction. The held head's own attention counts only where its "
    "weights, or its query and key weights, stay as they were. Look for a head that a transition waits for while it "
    "does not wait for the controls."
)


def _interventions_section(measured: Measured) -> Blocks:
    """Return the matrix of transitions and heads."""
    rows = measured.interventions
    if rows is None or rows.empty:
        return []
    return [Plot("interventions", {"": plot.interventions(rows)}, rows, DELAYS)]


SECTION = Section("interventions", "Which head a stage needs", _interventions_section, applies=never_missing)
