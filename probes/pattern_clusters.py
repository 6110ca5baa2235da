"""The kinds of attention pattern over training, by clustering the heads of all checkpoints."""

import dataclasses

import numpy as np
import pandas as pd
import torch

from stagewise.loss import mean_scored
from stagewise.probe import AbstractPatternProbe, Quantity, Reading, View

_SILHOUETTE_MEMORY = 4
"""Megabytes of distances that are held at a time."""

_SILHOUETTE_FLOOR = 0.25
"""Below it there is no substantial structure: Kaufman and Rousseeuw (1990), Finding Groups in Data, table 4."""

_SILHOUETTE_SAMPLE = 2000
"""Heads (of all checkpoints) that the silhouette is computed on; its cost grows with their square."""


@dataclasses.dataclass(frozen=True)
class PatternClusters(AbstractPatternProbe):
    """Heads of all checkpoints clustered by their attention as a function of relative offset and of relation.

    A head's `profile` is its mean mass at each offset up to `max_offset`, over the scored queries, and on each
    relation, but for one with the name of such an offset, over all queries that have keys in it: copying heads work
    there. Square roots of the masses are clustered (k-means), so that distances are Hellinger's. The number of
    clusters, from 2 to `max_clusters`, is the one with the largest mean silhouette; if that stays below 0.25 there is
    one cluster.

    Over the series it adds, at each step, the `cluster` of every head, numbered by first appearance; and at the last
    step the mean `centroid` profile of each cluster and the `silhouette` of each number of clusters tried.

    Args:
        max_offset: the farthest offset; None for all of the context.
        max_clusters: the largest number tried.

    Source: the clustering is this library's; silhouettes as in Rousseeuw (1987).

    >>> from stagewise.probe import example_view
    >>> [reading] = PatternClusters().read(example_view([[[1, 0], [0.25, 0.75]]]))
    >>> dict(zip(reading.labels["feature"], reading.values.flatten().tolist(), strict=True))
    {'offset 0': 0.875, 'offset 1': 0.125}
    """

    quantities = {
        "profile": Quantity("attention mass", range=(0, 1), role="attention pattern"),
        "cluster": Quantity("cluster"),
        "centroid": Quantity("attention mass", range=(0, 1)),
        "silhouette": Quantity("mean silhouette", range=(-1, 1)),
    }
    reads_predictions = False

    max_offset: int | None = None
    max_clusters: int = 8

    def read(self, view: View) -> list[Reading]:
        """Return `profile` by layer, head and feature."""
        batch = view.batch
        farthest = batch.tokens.shape[1] - 1
        last = farthest if self.max_offset is None else min(self.max_offset, farthest)
        offsets = view.offsets[..., : last + 1]
        features = [f"offset {k}" for k in range(last + 1)]
        relations = [name for name in batch.relations if name not in features]  # one may be an offset itself
        masses = [mean_scored(view.masses[name], batch.having_keys[name])[..., None] for name in relations]
        # A relation that no query of a sequence has keys in has no mean there, and does not exist.
        profile = torch.cat([offsets, *masses], -1).nan_to_num(0.0)
        starts = view.having(relations) if relations else None
        exists = None if starts is None else torch.nn.functional.pad(starts, (len(features), 0), value=True)
        labels = {"feature": [*features, *relations]}
        return [Reading("batch layer head feature", profile, "profile", labels, exists=exists)]

    def across(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of `cluster`, `centroid` and `silhouette`."""
        profiles: pd.DataFrame = table[table["quantity"] == "profile"].pivot(
            index=["run", "step", "probe", "layer", "head"], columns="feature", values="value"
        )
        profiles = profiles[table["feature"].dropna().unique()]
        labels, silhouettes = _cluster(np.sqrt(profiles.to_numpy().clip(0)), self.max_clusters)
        clusters = profiles.index.to_frame(index=False).assign(quantity="cluster", value=labels.astype(float))
        means = profiles.reset_index(drop=True).assign(cluster=labels).groupby("cluster").mean()
        centroids = means.reset_index().melt("cluster", var_name="feature")
        of_number = pd.DataFrame(silhouettes.items(), columns=["n_clusters", "value"])
        end = {key: clusters[key].iloc[-1] for key in ("run", "step", "probe")}
        further = centroids.assign(quantity="centroid", **end), of_number.assign(quantity="silhouette", **end)
        return pd.concat([clusters, *further], ignore_index=True)


def _cluster(points: np.ndarray, max_clusters: int) -> tuple[np.ndarray, dict[int, float]]:
    """Return each point's cluster, numbered by first appearance, and the silhouette of each number tried."""
    from sklearn import config_context
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    distinct = len(np.unique(points.round(6), axis=0))
    tried: dict[int, np.ndarray] = {
        k: KMeans(k, n_init=10, random_state=0).fit_predict(points)
        for k in range(2, min(max_clusters, distinct, len(points) - 1) + 1)
    }
    sample = min(len(points), _SILHOUETTE_SAMPLE)
    with config_context(working_memory=_SILHOUETTE_MEMORY):
        silhouettes = {
            k: float(silhouette_score(points, labels, sample_size=sample, random_state=0))
            for k, labels in tried.items()
        }
    best = max(silhouettes, key=silhouettes.__getitem__, default=1)
    if silhouettes.get(best, 0.0) < _SILHOUETTE_FLOOR:
        return np.zeros(len(points), dtype=int), silhouettes
    return pd.factorize(tried[best])[0], silhouettes
