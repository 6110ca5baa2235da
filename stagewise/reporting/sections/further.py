"""The sections on what other commands measured: checkpoints compared, learning coefficients, heads held in training."""

import html

from stagewise import plot
from stagewise.findings._unsettled import unsettled, unsettled_in_words
from stagewise.plot._quantities import quantity_of
from stagewise.reporting._figure import Plot, identifier
from stagewise.reporting._html import texts, wording
from stagewise.reporting._measured import Measured
from stagewise.reporting._prose import in_words
from stagewise.reporting._section import Blocks, Section, never_missing
from stagewise.reporting.sections.generic import caption
from stagewise.table import select

LAST = "last checkpoint"


def _compared(measured: Measured) -> Blocks:
    """Return a figure a quantity of the checkpoints' comparisons, and the way of the run."""
    table = measured.comparisons
    if table is None or table.empty:
        return []
    blocks: Blocks = []
    for probe, name in table[["probe", "quantity"]].drop_duplicates().itertuples(index=False):
        if probe == "Trajectory":
            continue
        rows, what = select(table, probe, name), quantity_of(table, probe, name)
        if "compared" in rows:  # of all comparisons those with the last checkpoint
            rows = rows[rows["compared"] == LAST].drop(columns="compared")
        rows.attrs = table.attrs
        look_for = [wording("further", probe)] if probe in texts()["further"] else []
        words = " ".join([html.escape(caption(rows, what)), *look_for])
        file = f"compared-{identifier(in_words(probe)).lower()}-{identifier(name)}"
        blocks.append(Plot(file, {"": plot.quantity(rows, probe, name, measured.stages)}, rows, words))
    way = table[table["probe"] == "Trajectory"]
    if len(way):
        blocks.append(
            Plot("trajectory", {"": plot.trajectory(way, measured.stages)}, way, wording("further", "trajectory"))
        )
    return blocks


def _coefficients(measured: Measured) -> Blocks:
    """Return the coefficients over training."""
    rows = measured.coefficients
    if rows is None or rows.empty:
        return []
    heads = ["of-heads"] if (rows["quantity"] == "of_head").any() else []
    words = f"{wording('further', 'coefficients', *heads)} {unsettled_in_words(unsettled(rows))}".strip()
    return [Plot("learning-coefficients", {"": plot.learning_coefficients(rows, measured.stages)}, rows, words)]


def _delays(measured: Measured) -> Blocks:
    """Return the matrix of transitions, and of heads and changes."""
    rows = measured.interventions
    if rows is None or rows.empty:
        return []
    return [Plot("interventions", {"": plot.interventions(rows)}, rows, wording("further", "delays"))]


INTERVENTIONS = Section("interventions", "What a stage needs", _delays, applies=never_missing)
COMPARED = Section("compared", "Checkpoints held against each other", _compared, applies=never_missing)
DEGENERACY = Section("degeneracy", "How degenerate the loss is", _coefficients, applies=never_missing)
