"""The sections of attention maps."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from stagewise.findings import Stages
from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured
from stagewise.reporting.sections.maps import (
    CHECKPOINTS,
    CONTEXT,
    MAPS,
    TRAINED_CONTEXT,
)
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


def test_the_viewer_goes_over_the_checkpoints_that_have_maps(
    table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    early = table[(table["probe"] != "MeanPattern") | (table["step"] <= 40)]
    _, shown = CHECKPOINTS.blocks(bare(early))
    (view,) = data_in(str(shown), "viewer-data")
    assert (view["steps"], view["heads"]) == ([0, 20, 40], ["L0H0", "L0H1"])


def test_without_maps_there_is_no_viewer_and_it_is_not_missing(
    table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    without = bare(table[table["probe"] != "MeanPattern"])
    assert (CHECKPOINTS.blocks(without), CHECKPOINTS.applies_to(without)) == ([], False)


def test_every_context_has_its_curve(table: pd.DataFrame, measured: Measured) -> None:
    (plot,) = CONTEXT.blocks(measured)
    assert isinstance(plot, Plot)
    lines = {str(line.get_label()): line for line in plot.panels[""].get_lines()}  # type: ignore[union-attr]
    for context in (1, 2):
        rows = table[(table["probe"] == "RestrictedContextKL") & (table["context"] == context)]
        np.testing.assert_allclose(np.asarray(lines[f"c = {context}"].get_ydata()), rows["value"].astype(float))


def test_models_trained_on_a_context_do_not_belong_to_it(
    table: pd.DataFrame, measured: Measured, bare: Callable[..., Measured]
) -> None:
    (plot,) = CONTEXT.blocks(measured)
    assert isinstance(plot, Plot)
    assert set(plot.rows["probe"]) == {"RestrictedContextKL"}
    assert CONTEXT.blocks(bare(table[table["reference"] == "trained c=1"])) == []


def test_of_all_references_the_trained_ones_are_shown(measured: Measured, table: pd.DataFrame) -> None:
    (plot,) = TRAINED_CONTEXT.blocks(measured)
    assert isinstance(plot, Plot)
    labels = [str(line.get_label()) for line in plot.panels[""].get_lines()]  # type: ignore[union-attr]
    assert [label for label in labels if label.startswith("KL")] == ["KL to trained c=1"]
    assert plot.rows["value"].tolist() == table[table["reference"] == "trained c=1"]["value"].tolist()


def test_without_trained_models_it_is_neither_shown_nor_missing(
    table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    without = bare(table[table["reference"].isin(["A*_1", "A*_1:2"])])
    assert (TRAINED_CONTEXT.blocks(without), TRAINED_CONTEXT.applies_to(without)) == ([], False)
