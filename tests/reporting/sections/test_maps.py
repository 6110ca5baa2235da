"""The sections of attention maps."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from stagewise.findings.stages import Stages
from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured
from stagewise.reporting.sections.maps import CHECKPOINTS, LAST_CHECKPOINT, MAPS
from tests.fixtures.packed import data_in


def drawn(measured: Measured) -> Plot:
    (plot,) = MAPS.blocks(measured)
    assert isinstance(plot, Plot)
    return plot


def test_maps_are_drawn_at_the_start_at_each_boundary_and_at_the_end(measured: Measured, stages: Stages) -> None:
    boundary = stages.table["end"].iloc[0]
    assert list(drawn(measured).panels) == ["step 0", f"step {boundary}", "step 600"]


def test_without_stages_the_quarter_and_the_middle_stand_for_boundaries(
    table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    rows = table[(table["probe"] == "MeanPattern") & (table["step"] <= 220)]  # 0, 20, ... 100, 140, 180, 220: nine
    assert list(drawn(bare(rows)).panels) == ["step 0", "step 40", "step 80", "step 220"]


def test_of_many_layers_twelve_maps_are_drawn_and_counted(table: pd.DataFrame, bare: Callable[..., Measured]) -> None:
    rows = table[table["probe"] == "MeanPattern"]
    plot = drawn(bare(pd.concat([rows.assign(layer=layer) for layer in range(4)])))
    assert "Drawn: 12 of 16 maps" in plot.caption
    assert list(plot.panels)[-1] == "layer 2 step 600"
    assert plot.rows["step"].nunique() == 4
    assert len(plot.rows) == 4 * 4 * 2


@pytest.mark.parametrize(("size", "outlined"), [(4, True), (5, False)])
def test_a_relation_is_outlined_where_it_fits_the_map(size: int, outlined: bool, measured: Measured) -> None:
    plot = drawn(measured._replace(relations={"mine": np.eye(size, dtype=bool)}))
    assert ("Outlined" in plot.caption) is outlined
    texts = [text.get_text() for text in plot.panels["step 0"].texts]
    assert ("mine" in texts) is outlined


def test_the_slider_goes_over_the_checkpoints_that_have_maps(
    table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    early = table[(table["probe"] != "MeanPattern") | (table["step"] <= 40)]
    (shown,) = CHECKPOINTS.blocks(bare(early))
    data = data_in(str(shown), "viewer-data")
    assert (data["steps"], data["heads"]) == ([0, 20, 40], ["L0H0", "L0H1"])


def test_without_maps_there_is_no_slider_and_it_is_not_missing(
    table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    without = bare(table[table["probe"] != "MeanPattern"])
    assert (CHECKPOINTS.blocks(without), CHECKPOINTS.applies(without)) == ([], False)


def test_the_last_checkpoint_with_maps_is_shown_in_a_place_that_its_script_fills(
    table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    early = table[(table["probe"] != "MeanPattern") | (table["step"] <= 40)]
    _, place, script = map(str, LAST_CHECKPOINT.blocks(bare(early)))
    assert "Step 40, the end" in place
    assert '<div id="circuitsvis">' in place
    assert data_in(script, "circuitsvis-data")["attentionHeadNames"]


def test_without_maps_nothing_is_shown(table: pd.DataFrame, bare: Callable[..., Measured]) -> None:
    assert LAST_CHECKPOINT.blocks(bare(table[table["probe"] != "MeanPattern"])) == []
