"""The section on what each head attends to: its mass on each relation, the specialisation of all, their changes."""

import html
import operator

from stagewise import plot
from stagewise.findings._head_labels import head_labels
from stagewise.plot.heads import moved_most
from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured
from stagewise.reporting._prose import between, html_table
from stagewise.reporting._section import PANELS, Blocks, Section, left_out
from stagewise.table import head_label, select

MASSES = (
    "Attention mass of each head on each relation, averaged over the scored queries. Look for heads that "
    "rise on the same relation together (they compete), and then part (they share the relations out). "
)
SPECIALISATION = (
    "Competition is 1 when all heads are on one and the same relation; coverage is 1 when every relation "
    "has a head of its own. Look for competition rising first and giving way to coverage."
)
CHANGES = (
    "<h3>When heads changed</h3><p>A head has a relation's name while at least half of its share is "
    "there, and is diffuse otherwise. A change happened between two checkpoints.</p>"
)


def _heads_section(measured: Measured) -> Blocks:
    """Return the masses, the indices of specialisation, and the heads' changes."""
    table, stages = measured.table, measured.stages
    blocks: Blocks = []
    if measured.has("AttentionTo.mass"):
        rows = select(table, "AttentionTo", "mass")
        panels = {head_label(*head): plot.head_masses(table, *head, stages) for head in moved_most(rows, PANELS)}
        blocks.append(Plot("head-masses", panels, rows, MASSES + left_out(rows, "mass moved")))
    if measured.has("HeadSpecialisation.coverage"):
        rows = select(table, "HeadSpecialisation")
        rows = rows[rows["quantity"].isin(("competition", "coverage"))]
        axes = plot.specialisation(table, stages)
        blocks.append(Plot("specialisation", {"": axes}, rows, SPECIALISATION))
    return blocks + _last_labels(measured) + _changes(measured)


def _last_labels(measured: Measured) -> Blocks:
    """Return each head's role at the last checkpoint in words, the undecided ones too."""
    labels = head_labels(measured.table) if measured.has("HeadSpecialisation.share") else None
    if labels is None:
        return []
    last = labels[labels["step"] == labels["step"].max()]
    heads = {
        label: [head_label(*head) for head in rows[["layer", "head"]].itertuples(index=False)]
        for label, rows in last.groupby("label", sort=False)
    }
    words = "; ".join(f"{label}: {', '.join(names)}" for label, names in heads.items())
    return [
        f"<p>At the last checkpoint, where the error of its share allows a name: {html.escape(words)}. A share is of a "
        "head's attention at all scored queries, also where a relation has no key: a head that attends to it wherever "
        "it can may be diffuse.</p>"
    ]


def _changes(measured: Measured) -> Blocks:
    if measured.stages is None or measured.stages.events.empty:
        return []
    changes = [
        [
            head_label(row["layer"], row["head"]),
            *(row["before"], row["after"]),
            between(row),
        ]
        for row in measured.stages.events.to_dict("records")
    ]
    return [CHANGES, html_table(["head", "from", "to", "between steps"], changes)]


SECTION = Section(
    "heads",
    "What each head attends to",
    _heads_section,
    ("AttentionTo", "HeadSpecialisation"),
    applies=operator.attrgetter("has_relations"),
)
