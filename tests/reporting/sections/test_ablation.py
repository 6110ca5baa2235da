"""The section of ablations: a figure a kind, each with its own rows."""

from collections.abc import Callable

import pandas as pd

from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured
from stagewise.reporting.sections.ablation import SECTION


def test_every_kind_of_ablation_has_a_figure_of_its_own_rows(
    table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    zero = table[table["probe"] == "HeadAblation"]
    other = zero.assign(kind="<mean>", value=zero["value"] + 1)
    plots = [block for block in SECTION.blocks(bare(pd.concat([zero, other]))) if isinstance(block, Plot)]
    assert [plot.name for plot in plots] == ["ablation-zero", "ablation-<mean>"]
    assert [plot.rows["value"].tolist() for plot in plots] == [zero["value"].tolist(), other["value"].tolist()]
    assert "(zero ablation)" in plots[0].caption
    assert "(&lt;mean&gt; ablation)" in plots[1].caption


def test_a_control_is_drawn_beside_what_it_controls(measured: Measured) -> None:
    (plot,) = SECTION.blocks(measured)
    assert isinstance(plot, Plot)
    titles = [ax.get_title(loc="left") for ax in plot.panels[""].axes]  # type: ignore[union-attr]
    assert [title for title in titles if title] == ["zero ablation of the head", "zero ablation of a random head"]


def test_without_the_kl_there_is_no_figure(table: pd.DataFrame, bare: Callable[..., Measured]) -> None:
    assert SECTION.blocks(bare(table[table["probe"] == "HeadAblation"].assign(quantity="other"))) == []
