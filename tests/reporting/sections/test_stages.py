"""The section of stages: what is said, and which curves are shown."""

from collections.abc import Callable

import pandas as pd
import pytest
from matplotlib.figure import Figure

from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.stages import SECTION


def figure_of(measured: Measured) -> Plot:
    plot = SECTION.blocks(measured)[-1]
    assert isinstance(plot, Plot)
    return plot


def test_the_stage_table_has_a_row_a_stage_and_says_what_its_times_are(measured: Measured) -> None:
    words, table, explanation, _ = map(str, SECTION.blocks(measured))
    assert words.count("<li>") >= 2
    assert table.count("<tr>") == 1 + 2
    assert "fall in KL to the complete" in explanation


def test_curves_without_stages_are_shown_and_no_stage_is_claimed(
    table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    said, _ = SECTION.blocks(bare(table[table["probe"] == "Loss"]))
    assert "so no stages are shown" in str(said)


def test_models_trained_on_less_context_are_left_to_their_own_section(measured: Measured, table: pd.DataFrame) -> None:
    shown = figure_of(measured).rows
    assert set(shown["reference"].dropna()) == {"A*_1", "A*_1:2"}
    assert (shown["probe"] == "Loss").sum() == (table["probe"] == "Loss").sum()


@pytest.mark.parametrize(("probes", "panels"), [(["KLToReference"], 1), (["Loss"], 1), (["KLToReference", "Loss"], 2)])
def test_kl_and_loss_have_a_panel_each_where_they_were_measured(
    probes: list[str], panels: int, table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    figure = figure_of(bare(table[table["probe"].isin(probes)])).panels[""]
    assert isinstance(figure, Figure)
    assert len(figure.axes) == panels


def test_the_caption_speaks_of_minima_only_where_stages_end_at_them(measured: Measured) -> None:
    assert "<em>minimum</em>" in figure_of(measured).caption
    assert "<em>minimum</em>" not in figure_of(measured._replace(stages=None)).caption
