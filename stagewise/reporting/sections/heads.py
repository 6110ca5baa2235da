"""The sections on heads: what they attend to, their ablation, and their kinds over training."""

import html
import operator

from stagewise import plot
from stagewise.findings import head_labels
from stagewise.findings.lineage import Lineage
from stagewise.plot.heads import moved_most
from stagewise.reporting._figure import Plot
from stagewise.reporting._html import wording
from stagewise.reporting._measured import Measured
from stagewise.reporting._prose import LISTED, NONE, between, html_table
from stagewise.reporting._section import PANELS, Blocks, Section
from stagewise.table import head_label, heads_in, select
from stagewise.words import written
from stagewise.words.stages import each_event

KINDS = ("kind", "attends to", "first at step", "last at step", "heads at the end")

OF_HEADS = "AttentionTo", "HeadSpecialisation"


def _attended(measured: Measured) -> Blocks:
    """Return the masses, the indices of specialisation, and the heads' changes."""
    table, stages = measured.table, measured.stages
    blocks: Blocks = []
    if measured.has("AttentionTo.mass"):
        rows = select(table, "AttentionTo", "mass")
        panels = {head_label(*head): plot.head_masses(table, *head, stages) for head in moved_most(rows, PANELS)}
        many = len(heads_in(rows))
        drawn = f" Drawn: the {PANELS} of {many} heads whose mass moved most." if many > PANELS else ""
        blocks.append(Plot("head-masses", panels, rows, wording("heads", "masses") + drawn))
    if measured.has("HeadSpecialisation.coverage"):
        rows = select(table, "HeadSpecialisation")
        rows = rows[rows["quantity"].isin(("competition", "coverage"))]
        figures = {name: plot.quantity(rows, "HeadSpecialisation", name, stages) for name in rows["quantity"].unique()}
        blocks.append(Plot("specialisation", figures, rows, wording("heads", "specialisation")))
    return blocks + _last_labels(measured) + _changes(measured)


def _last_labels(measured: Measured) -> Blocks:
    """Return each head's role at the last checkpoint in words, the undecided ones too."""
    labels = head_labels(measured.table) if measured.has("HeadSpecialisation.share") else None
    if labels is None:
        return []
    roles = labels[labels["step"] == labels["step"].max()].groupby("label", sort=False)
    words = "; ".join(f"{role}: {', '.join(map(head_label, of['layer'], of['head']))}" for role, of in roles)
    return [wording("heads", "roles", roles=html.escape(words))]


def _changes(measured: Measured) -> Blocks:
    if measured.stages is None or measured.stages.events.empty:
        return []
    changes = [
        [head_label(row["layer"], row["head"]), row["before"], row["after"], between(row)]
        for row in measured.stages.events.to_dict("records")
    ]
    return [wording("heads", "changes"), html_table(["head", "from", "to", "between steps"], changes)]


HEADS = Section("heads", "What each head attends to", _attended, OF_HEADS, applies=operator.attrgetter("has_relations"))


def _needed(measured: Measured) -> Blocks:
    """Return a matrix and its control for each kind of ablation."""
    table = measured.table
    blocks: Blocks = []
    if not measured.has("HeadAblation.kl"):
        return blocks
    for kind in select(table, "HeadAblation", "kl")["kind"].unique():
        rows = select(table, "HeadAblation", "kl", kind=kind)
        figure = plot.ablation_with_control(table, kind, stages=measured.stages)
        caption = wording("ablation", "ablation", kind=html.escape(str(kind)))
        blocks.append(Plot(f"ablation-{kind}", {"": figure}, rows, caption))
    return blocks


ABLATION = Section("ablation", "Which heads are needed", _needed, ("HeadAblation",))


def _lineage(measured: Measured) -> Blocks:
    """Return the kinds of attention, and the events in which heads change them."""
    lineage = measured.lineage
    if lineage is None:
        return []
    shown = lineage.events.head(2 * LISTED)
    rows = [
        [between(row), row["event"], text]
        for row, text in zip(shown.to_dict("records"), each_event(shown, lineage.kinds), strict=True)
    ]
    events = html_table(["between steps", "event", "what happened"], rows) if rows else wording("kinds", "none")
    blocks: Blocks = [wording("kinds", "lineage"), html_table(KINDS, _kinds(lineage)), events]
    more = len(lineage.events) - len(rows)
    return [*blocks, f"<p>And {more} more events.</p>"] if more > 0 else blocks


def _kinds(lineage: Lineage) -> list[list[object]]:
    """Return the cells of `KINDS`."""
    last = lineage.members[lineage.members["step"] == lineage.members["step"].max()]
    at_end = {kind: ", ".join(map(head_label, of["layer"], of["head"])) for kind, of in last.groupby("kind")}
    return [
        [row["kind"], row["name"], *map(written, (row["first_step"], row["last_step"])), at_end.get(row["kind"], NONE)]
        for row in lineage.kinds.to_dict("records")
    ]


LINEAGE = Section("lineage", "Where the kinds of attention come from", _lineage, applies=False)
