"""The section on models that were trained on less context."""

from collections.abc import Callable

import pandas as pd

from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.trained_context import SECTION


def test_of_all_references_the_trained_ones_are_shown(measured: Measured, table: pd.DataFrame) -> None:
    (plot,) = SECTION.blocks(measured)
    assert isinstance(plot, Plot)
    labels = [str(line.get_label()) for line in plot.panels[""].get_lines()]  # type: ignore[union-attr]
    assert [label for label in labels if label.startswith("KL")] == ["KL to trained c=1"]
    assert plot.rows["value"].tolist() == table[table["reference"] == "trained c=1"]["value"].tolist()


def test_without_trained_models_it_is_neither_shown_nor_missing(
    table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    without = bare(table[table["reference"].isin(["A*_1", "A*_1:2"])])
    assert (SECTION.blocks(without), SECTION.applies(without)) == ([], False)
