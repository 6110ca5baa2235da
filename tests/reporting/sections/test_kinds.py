"""The sections on the kinds of attention."""

from collections.abc import Callable

import pandas as pd

from stagewise.findings.lineage import find_lineage
from stagewise.reporting._figure import Plot
from stagewise.reporting._html import wording
from stagewise.reporting._measured import Measured
from stagewise.reporting.sections.kinds import CLUSTERS, LINEAGE
from tests.fixtures.profiles import profile_rows


def test_events_stand_below_the_river(measured: Measured) -> None:
    lineage = find_lineage(profile_rows([*[[None, None]] * 5, *[[None, 4]] * 5]))
    figure, table = LINEAGE.blocks(measured._replace(lineage=lineage, stages=None))
    assert isinstance(figure, Plot)
    assert len(figure.rows) == 20
    assert isinstance(table, str)
    assert "L0H1 leaves the common pattern: kind 2 (offset 4) is born" in table


def test_a_run_in_which_nothing_happened_says_so(measured: Measured) -> None:
    lineage = find_lineage(profile_rows([[None, 2]] * 5))
    assert LINEAGE.blocks(measured._replace(lineage=lineage, stages=None))[1] == wording("kinds", "none")


def test_a_run_without_patterns_has_no_such_section(measured: Measured) -> None:
    assert LINEAGE.blocks(measured) == []


def test_the_best_silhouette_is_told(table: pd.DataFrame, bare: Callable[..., Measured]) -> None:
    rows = table[table["probe"] == "PatternClusters"]
    scores = pd.DataFrame({"step": 600, "value": [0.25, 0.613, 0.4]}).assign(
        run=rows["run"].iloc[0], probe="PatternClusters", quantity="silhouette"
    )
    (plot,) = CLUSTERS.blocks(bare(pd.concat([rows, scores])))
    assert isinstance(plot, Plot)
    assert plot.caption.endswith("The best mean silhouette is 0.61.")
    assert len(plot.rows) == len(rows) + 3


def test_clusters_and_their_profiles_are_two_panels_of_the_same_rows(table: pd.DataFrame, measured: Measured) -> None:
    (plot,) = CLUSTERS.blocks(measured)
    assert isinstance(plot, Plot)
    assert list(plot.panels) == ["heads", "profiles"]
    assert "silhouette" not in plot.caption
    assert set(plot.rows["quantity"]) == {"cluster", "centroid"}
    assert len(plot.rows) == (table["probe"] == "PatternClusters").sum()


def test_clusters_without_profiles_are_not_shown(table: pd.DataFrame, bare: Callable[..., Measured]) -> None:
    assert CLUSTERS.blocks(bare(table[table["quantity"] != "centroid"])) == []
