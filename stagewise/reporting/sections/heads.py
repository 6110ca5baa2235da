"""The sections on heads: what they attend to and write, scores, weights, ablation, and their kinds over training."""

import functools
import html
import operator

import pandas as pd

from stagewise import plot
from stagewise.findings import head_labels
from stagewise.findings.lineage import Lineage
from stagewise.plot.curves import quantity_of
from stagewise.plot.heads import moved_most
from stagewise.reporting._figure import Plot
from stagewise.reporting._html import wording
from stagewise.reporting._measured import Measured
from stagewise.reporting._prose import LISTED, NONE, between, html_table
from stagewise.reporting._section import PANELS, Blocks, Section, never_missing
from stagewise.table import head_label, heads_in, select
from stagewise.words import written
from stagewise.words.stages import each_event

OF_ATTENTION = (("EffectiveSupport", "keys"), ("AttentionDistance", "distance"), ("ParticipationRatio", "dimensions"))
OF_WEIGHTS = (("OVCopying", "copying"), ("QKOffset", "share"))
WRITTEN = ("cosine", "projection")

KINDS = ("kind", "attends to", "first at step", "last at step", "heads at the end")

OF_CLUSTERS = ("PatternClusters.cluster", "PatternClusters.centroid", "PatternClusters.silhouette")


def _left_out(rows: pd.DataFrame, measure: str) -> str:
    """Say which heads are drawn where there are too many."""
    n_heads = len(heads_in(rows))
    return f" Drawn: the {PANELS} of {n_heads} heads whose {measure} most." if n_heads > PANELS else ""


def _attended(measured: Measured) -> Blocks:
    """Return the masses, the indices of specialisation, and the heads' changes."""
    table, stages = measured.table, measured.stages
    blocks: Blocks = []
    if measured.has("AttentionTo.mass"):
        rows = select(table, "AttentionTo", "mass")
        panels = {head_label(*head): plot.head_masses(table, *head, stages) for head in moved_most(rows, PANELS)}
        blocks.append(Plot("head-masses", panels, rows, wording("heads", "masses") + _left_out(rows, "mass moved")))
    if measured.has("HeadSpecialisation.coverage"):
        rows = select(table, "HeadSpecialisation")
        rows = rows[rows["quantity"].isin(("competition", "coverage"))]
        axes = plot.specialisation(table, stages)
        blocks.append(Plot("specialisation", {"": axes}, rows, wording("heads", "specialisation")))
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


def _label(measured: Measured, probe: str, name: str) -> str:
    return html.escape(quantity_of(measured.table, probe, name).label.capitalize())


def _written(measured: Measured) -> Blocks:
    """Return the alignment of each head's value map with each feature."""
    blocks: Blocks = []
    for name in WRITTEN:
        if measured.has(f"ValueAlignment.{name}"):
            rows = select(measured.table, "ValueAlignment", name)
            draw = functools.partial(plot.value_alignment, measured.table, quantity=name, stages=measured.stages)
            panels = {head_label(*head): draw(*head) for head in moved_most(rows, PANELS)}
            caption = wording("heads", name, label=_label(measured, "ValueAlignment", name))
            blocks.append(Plot(f"value-{name}", panels, rows, caption + _left_out(rows, "value moved")))
    return blocks


def _score(measured: Measured, probe: str, name: str, file: str, caption: str) -> Blocks:
    """Return the figure of a score of the heads in which it moved most; none where it was not measured."""
    if not measured.has(f"{probe}.{name}"):
        return []
    rows = select(measured.table, probe, name)
    axes = plot.head_scores(measured.table, probe, name, moved_most(rows, PANELS), measured.stages)
    words = wording("heads", caption, label=_label(measured, probe, name)) + _left_out(rows, f"{name} moved")
    return [Plot(f"{file}-{name}", {"": axes}, rows, words)]


def _entropy(measured: Measured) -> Blocks:
    return _score(measured, "AttentionEntropy", "entropy", "heads", "entropy")


def _of_attention(measured: Measured) -> Blocks:
    return [block for score in OF_ATTENTION for block in _score(measured, *score, "heads", "score")]


def _of_weights(measured: Measured) -> Blocks:
    blocks = [block for score in OF_WEIGHTS for block in _score(measured, *score, "weights", score[1])]
    if measured.has("Composition.score"):
        rows = select(measured.table, "Composition", "score")
        figure = plot.quantity(measured.table, "Composition", "score", measured.stages, words=_pair)
        blocks.append(Plot("composition", {"": figure}, rows, wording("heads", "composition")))
    return blocks


def _pair(labels: dict[str, object]) -> str:
    head = head_label(int(str(labels["layer"])), int(str(labels["head"])))
    return f"{head} of {labels['source']}, {labels['composition']}"


HEADS = Section(
    "heads",
    "What each head attends to",
    _attended,
    ("AttentionTo", "HeadSpecialisation"),
    applies=operator.attrgetter("has_relations"),
)
VALUES = Section("values", "What each head writes", _written, ("ValueAlignment",), applies=never_missing)
ENTROPY = Section("entropy", "How widely each head attends", _entropy, ("AttentionEntropy.entropy",))
WEIGHTS = Section(
    "weights",
    "What the weights alone show",
    _of_weights,
    (*map(".".join, OF_WEIGHTS), "Composition.score"),
    of_batch=False,
)
SCORES = Section(
    "head-scores", "How many keys, how far, how many dimensions", _of_attention, tuple(map(".".join, OF_ATTENTION))
)


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


def _clusters(measured: Measured) -> Blocks:
    """Return the cluster of each head over training, and what each cluster attends to."""
    table = measured.table
    if not (measured.has("PatternClusters.cluster") and measured.has("PatternClusters.centroid")):
        return []
    rows = select(table, "PatternClusters")
    rows = rows[rows["quantity"] != "profile"]
    silhouettes = rows[rows["quantity"] == "silhouette"]
    quality = f" The best mean silhouette is {silhouettes['value'].max():.2f}." if len(silhouettes) else ""
    panels = {"heads": plot.clusters(table, measured.stages), "profiles": plot.centroids(table)}
    return [Plot("clusters", panels, rows, wording("kinds", "clusters") + quality)]


LINEAGE = Section("lineage", "Where the kinds of attention come from", _lineage, applies=never_missing)
CLUSTERS = Section("clusters", "Kinds of attention", _clusters, ("PatternClusters",), reads=OF_CLUSTERS)
