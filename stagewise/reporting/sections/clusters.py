"""The section on the kinds of attention that heads went through."""

from stagewise import plot
from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.section import Blocks, Section
from stagewise.table import select

CLUSTERS = (
    "Above: the cluster of each head at each step, heads of all checkpoints clustered together; look for "
    "heads that leave a common cluster. Below: the mean attention of each cluster."
)


def _clusters_section(measured: Measured) -> Blocks:
    """Return the cluster of each head over training, and what each cluster attends to."""
    table = measured.table
    if not (measured.has("PatternClusters.cluster") and measured.has("PatternClusters.centroid")):
        return []
    rows = select(table, "PatternClusters")
    rows = rows[rows["quantity"] != "profile"]
    silhouettes = rows[rows["quantity"] == "silhouette"]
    quality = f" The best mean silhouette is {silhouettes['value'].max():.2f}." if len(silhouettes) else ""
    panels = {"heads": plot.clusters(table, measured.stages), "profiles": plot.centroids(table)}
    return [Plot("clusters", panels, rows, CLUSTERS + quality)]


SHOWN = ("PatternClusters.cluster", "PatternClusters.centroid", "PatternClusters.silhouette")

SECTION = Section("clusters", "Kinds of attention", _clusters_section, ("PatternClusters",), reads=SHOWN)
