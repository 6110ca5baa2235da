"""The section on what the weights alone say."""

from collections.abc import Callable

import pandas as pd
from matplotlib.figure import Figure

from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.weights import SECTION


def names(measured: Measured) -> list[str]:
    return [block.name for block in SECTION.blocks(measured) if isinstance(block, Plot)]


def test_each_score_of_the_weights_that_was_measured_has_its_figure(
    measured: Measured, many_heads: Callable[..., pd.DataFrame], bare: Callable[..., Measured]
) -> None:
    assert names(measured) == ["weights-copying"]
    both = pd.concat([many_heads("QKOffset", "share"), many_heads("OVCopying", "copying")])
    assert names(bare(both)) == ["weights-copying", "weights-share"]


def test_a_pair_of_heads_is_named_by_both_and_by_what_is_composed(bare: Callable[..., Measured]) -> None:
    rows = [
        {"step": step, "layer": 1, "head": 2, "source": "L0H3", "composition": kind, "value": 0.1 + size * step}
        for step in (0, 1)
        for kind, size in (("K", 0.5), ("Q", 0.1))
    ]
    table = pd.DataFrame(rows).assign(run="run", probe="Composition", quantity="score")
    (plot,) = SECTION.blocks(bare(table))
    assert isinstance(plot, Plot)
    figure = plot.panels[""]
    assert isinstance(figure, Figure)
    (ax,) = figure.axes
    assert {str(line.get_label()) for line in ax.get_lines()} == {"L1H2 of L0H3, K", "L1H2 of L0H3, Q"}
