"""The section on how widely heads attend."""

from collections.abc import Callable

import pandas as pd

from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.entropy import SECTION


def test_the_head_that_moved_least_is_in_the_table_but_not_drawn(
    many_heads: Callable[..., pd.DataFrame], bare: Callable[..., Measured]
) -> None:
    (plot,) = SECTION.blocks(bare(many_heads("AttentionEntropy", "entropy")))
    assert isinstance(plot, Plot)
    labels = {str(line.get_label()) for line in plot.panels[""].get_lines()}  # type: ignore[union-attr]
    assert {label for label in labels if label.startswith("L")} == {f"L0H{head}" for head in range(1, 13)}
    assert "Drawn: the 12 of 13 heads whose entropy moved most." in plot.caption
    assert set(plot.rows["head"]) == set(range(13))


def test_all_heads_are_drawn_without_a_word_where_they_are_few(measured: Measured) -> None:
    (plot,) = SECTION.blocks(measured)
    assert isinstance(plot, Plot)
    assert "Drawn" not in plot.caption
    assert len(plot.rows) == 2 * 31
