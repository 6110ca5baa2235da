"""The section of further scores of heads."""

from collections.abc import Callable

import pandas as pd

from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.head_scores import SECTION


def test_each_score_that_was_measured_has_its_figure_of_the_heads_that_moved(
    many_heads: Callable[..., pd.DataFrame], bare: Callable[..., Measured]
) -> None:
    tables = [many_heads("ParticipationRatio", "dimensions"), many_heads("AttentionDistance", "distance")]
    plots = [block for block in SECTION.blocks(bare(pd.concat(tables))) if isinstance(block, Plot)]
    assert [plot.name for plot in plots] == ["heads-distance", "heads-dimensions"]
    for plot, rows in zip(plots, reversed(tables), strict=True):
        pd.testing.assert_frame_equal(plot.rows[rows.columns], rows, check_dtype=False)
        labels = {str(line.get_label()) for line in plot.panels[""].get_lines()}  # type: ignore[union-attr]
        assert "L0H12" in labels
        assert "L0H0" not in labels


def test_a_caption_begins_with_the_declared_label(measured: Measured) -> None:
    (plot,) = SECTION.blocks(measured)
    assert isinstance(plot, Plot)
    assert plot.caption.startswith("Effective number of keys of each head over training")
