"""The section on what each head writes."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.values import SECTION


def test_every_head_has_a_panel_with_a_line_a_feature(measured: Measured, table: pd.DataFrame) -> None:
    plots = [block for block in SECTION.blocks(measured) if isinstance(block, Plot)]
    assert [plot.name for plot in plots] == ["value-cosine", "value-projection"]
    rows = table[(table["probe"] == "ValueAlignment") & (table["quantity"] == "projection")]
    own = rows[(rows["head"] == 1) & (rows["feature"] == "A*_2")]
    panel = plots[1].panels["L0H1"]
    (line,) = [line for line in panel.get_lines() if line.get_label() == "A*_2"]  # type: ignore[union-attr]
    np.testing.assert_allclose(np.asarray(line.get_ydata()), own["value"].astype(float))


def test_only_what_was_measured_is_explained(table: pd.DataFrame, bare: Callable[..., Measured]) -> None:
    rows = table[(table["probe"] == "ValueAlignment") & (table["quantity"] == "cosine")]
    (plot,) = SECTION.blocks(bare(rows))
    assert isinstance(plot, Plot)
    assert "1 where the head writes this feature and nothing else" in plot.caption
    assert len(plot.rows) == len(rows)
