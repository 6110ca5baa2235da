"""The section on restricted contexts: a curve a context, through the table's values."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.context import SECTION


def test_every_context_has_its_curve(table: pd.DataFrame, measured: Measured) -> None:
    (plot,) = SECTION.blocks(measured)
    assert isinstance(plot, Plot)
    lines = {str(line.get_label()): line for line in plot.panels[""].get_lines()}  # type: ignore[union-attr]
    for context in (1, 2):
        rows = table[(table["probe"] == "RestrictedContextKL") & (table["context"] == context)]
        np.testing.assert_allclose(np.asarray(lines[f"c = {context}"].get_ydata()), rows["value"].astype(float))


def test_models_trained_on_a_context_do_not_belong_to_it(
    table: pd.DataFrame, measured: Measured, bare: Callable[..., Measured]
) -> None:
    (plot,) = SECTION.blocks(measured)
    assert isinstance(plot, Plot)
    assert set(plot.rows["probe"]) == {"RestrictedContextKL"}
    assert SECTION.blocks(bare(table[table["reference"] == "trained c=1"])) == []
