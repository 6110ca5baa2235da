"""The sections on context."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured
from stagewise.reporting.sections.context import CONTEXT, TRAINED_CONTEXT


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
    assert (TRAINED_CONTEXT.blocks(without), TRAINED_CONTEXT.applies(without)) == ([], False)
