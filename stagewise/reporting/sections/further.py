"""The sections on what other commands measured: checkpoints compared, learning coefficients, heads held in training."""

import html

import pandas as pd

from stagewise import plot
from stagewise.findings._unsettled import unsettled, unsettled_in_words
from stagewise.plot._quantities import quantity_of
from stagewise.reporting._figure import Plot, identifier
from stagewise.reporting._measured import Measured
from stagewise.reporting._prose import in_words
from stagewise.reporting._section import Blocks, Section, never_missing
from stagewise.reporting.sections.generic import caption
from stagewise.table import select

LAST = "last checkpoint"
LOOK_FOR = {
    "LinearCKA": (
        "Compared with the last checkpoint, in front of each layer and behind the last one; 1 is the same up to a "
        "rotation, 0 is chance. Look for when a layer comes to hold what it will hold at the end."
    ),
    "PrincipalAngles": (
        "Of the subspaces that each head reads and writes, from those of the last checkpoint. Where a head has as many "
        "dimensions as the model, its subspaces are the whole space and the angles are 0."
    ),
}
WAY = (
    "Where each checkpoint lies on the first two principal components of all, early ones light, late ones dark. "
    "Look for turns at a boundary of stages; turns alone are not stages, since a random walk has them too."
)
COEFFICIENTS = (
    "The local learning coefficient of the loss on the probe batch around each checkpoint, with 95 % intervals over "
    "the chains: how fast the loss grows when the weights are perturbed. A larger coefficient is less degenerate: more "
    "directions matter. Dashed: how far the chains still moved. Where training still moves fast, a chain finds lower "
    "losses, and the coefficient is small or negative and has no such meaning (far below 0 it is only in the table). "
    "Look for a level that changes at a boundary of stages and stays; its height depends on the sampler and the batch."
)
OF_HEADS = "Below: of each head's weights alone, all others as they are. "
DELAYS = (
    "How many optimiser steps later each transition came where a head was held in training from a step on, or the "
    "recipe changed, with its 95 % interval; > n: it no longer came, at least n steps later. out: the head writes "
    "nothing; weights, pattern: these stay as they were; uniform: it attends uniformly; on a relation: it attends to "
    "that only; kick: the control, a push of the head's norm in a random direction; another batch order: the control "
    "of changes, the same batches from there on, shuffled. The held head's own attention counts only where its "
    "weights, or its query and key weights, stay as they were. Look for a head, or a change, that a transition waits "
    "for while it does not wait for the controls."
)


def _compared(measured: Measured) -> Blocks:
    """Return a figure a quantity of the checkpoints' comparisons, and the way of the run."""
    table = measured.comparisons
    if table is None or table.empty:
        return []
    blocks: Blocks = []
    for probe, name in table[["probe", "quantity"]].drop_duplicates().itertuples(index=False):
        if probe == "Trajectory":
            continue
        rows = _to_last(select(table, probe, name))
        what = quantity_of(table, probe, name)
        rows.attrs = table.attrs
        words = f"{html.escape(caption(rows, what))} {LOOK_FOR.get(probe, '')}".strip()
        figure = plot.quantity(rows, probe, name, measured.stages)
        blocks.append(
            Plot(f"compared-{identifier(in_words(probe)).lower()}-{identifier(name)}", {"": figure}, rows, words)
        )
    way = table[table["probe"] == "Trajectory"]
    if len(way):
        blocks.append(Plot("trajectory", {"": plot.trajectory(way, measured.stages)}, way, WAY))
    return blocks


def _to_last(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the comparisons with the last checkpoint, without the column that says so."""
    if "compared" not in rows:
        return rows
    return rows[rows["compared"] == LAST].drop(columns="compared")


def _coefficients(measured: Measured) -> Blocks:
    """Return the coefficients over training."""
    rows = measured.coefficients
    if rows is None or rows.empty:
        return []
    heads = OF_HEADS if (rows["quantity"] == "of_head").any() else ""
    words = f"{COEFFICIENTS} {heads}{unsettled_in_words(unsettled(rows))}"
    figure = plot.learning_coefficients(rows, measured.stages)
    return [Plot("learning-coefficients", {"": figure}, rows, words.strip())]


def _delays(measured: Measured) -> Blocks:
    """Return the matrix of transitions, and of heads and changes."""
    rows = measured.interventions
    if rows is None or rows.empty:
        return []
    return [Plot("interventions", {"": plot.interventions(rows)}, rows, DELAYS)]


INTERVENTIONS = Section("interventions", "What a stage needs", _delays, applies=never_missing)
COMPARED = Section("compared", "Checkpoints held against each other", _compared, applies=never_missing)
DEGENERACY = Section("degeneracy", "How degenerate the loss is", _coefficients, applies=never_missing)
