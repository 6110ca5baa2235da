"""The section on clusters of attention: what is shown of them, and how good they are."""

from collections.abc import Callable

import pandas as pd

from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.clusters import SECTION


def test_the_best_silhouette_is_told(table: pd.DataFrame, bare: Callable[..., Measured]) -> None:
    rows = table[table["probe"] == "PatternClusters"]
    scores = pd.DataFrame({"step": 600, "value": [0.25, 0.613, 0.4]}).assign(
        run=rows["run"].iloc[0], probe="PatternClusters", quantity="silhouette"
    )
    (plot,) = SECTION.blocks(bare(pd.concat([rows, scores])))
    assert isinstance(plot, Plot)
    assert plot.caption.endswith("The best mean silhouette is 0.61.")
    assert len(plot.rows) == len(rows) + 3


def test_clusters_and_their_profiles_are_two_panels_of_the_same_rows(table: pd.DataFrame, measured: Measured) -> None:
    (plot,) = SECTION.blocks(measured)
    assert isinstance(plot, Plot)
    assert list(plot.panels) == ["heads", "profiles"]
    assert "silhouette" not in plot.caption
    assert set(plot.rows["quantity"]) == {"cluster", "centroid"}
    assert len(plot.rows) == (table["probe"] == "PatternClusters").sum()


def test_clusters_without_profiles_are_not_shown(table: pd.DataFrame, bare: Callable[..., Measured]) -> None:
    assert SECTION.blocks(bare(table[table["quantity"] != "centroid"])) == []
