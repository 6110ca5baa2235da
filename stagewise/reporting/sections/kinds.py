"""The sections on the kinds of attention that heads go through: where they come from, and clusters of patterns."""

from stagewise import plot
from stagewise.reporting._figure import Plot
from stagewise.reporting._html import wording
from stagewise.reporting._measured import Measured
from stagewise.reporting._prose import LISTED, between, html_table
from stagewise.reporting._section import Blocks, Section, never_missing
from stagewise.table import select
from stagewise.words._lineage import each_event


def _lineage(measured: Measured) -> Blocks:
    """Return the river of heads and the events in it."""
    lineage = measured.lineage
    if lineage is None:
        return []
    shown = lineage.events.head(2 * LISTED)
    rows = [
        [between(row), row["event"], text]
        for row, text in zip(shown.to_dict("records"), each_event(shown, lineage.kinds), strict=True)
    ]
    river = Plot("lineage", {"": plot.river(lineage, measured.stages)}, lineage.members, wording("kinds", "river"))
    events = html_table(["between steps", "event", "what happened"], rows) if rows else wording("kinds", "none")
    more = len(lineage.events) - len(rows)
    return [river, events, *([f"<p>And {more} more events.</p>"] if more > 0 else [])]


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


SHOWN = ("PatternClusters.cluster", "PatternClusters.centroid", "PatternClusters.silhouette")

LINEAGE = Section("lineage", "Where the kinds of attention come from", _lineage, applies=never_missing)
CLUSTERS = Section("clusters", "Kinds of attention", _clusters, ("PatternClusters",), reads=SHOWN)
