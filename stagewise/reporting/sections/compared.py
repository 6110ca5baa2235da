"""The section on checkpoints held against each other: representations, heads' subspaces, and the way of the run."""

import html

import pandas as pd

from stagewise import plot
from stagewise.plot.quantities import quantity_of
from stagewise.reporting.figure import Plot, identifier
from stagewise.reporting.measured import Measured
from stagewise.reporting.prose import in_words
from stagewise.reporting.section import Blocks, Section, never_missing
from stagewise.reporting.sections.generic import caption
from stagewise.table import select

LAST = "last checkpoint"
LOOK_FOR = {
    "LinearCKA": (
        "Compared with the last checkpoint, in front of each layer and behind the last one; 1 is the same up to a "
        "rotation, 0 is chance. Look for the steps at which a layer comes to hold what it will hold at the end."
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


def _compared_section(measured: Measured) -> Blocks:
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


SECTION = Section("compared", "Checkpoints held against each other", _compared_section, applies=never_missing)
