"""Figures of heads."""

import numpy as np
import pandas as pd
import pytest

from stagewise import plot


def test_a_figure_of_rows_that_are_not_there_says_what_there_is(table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"no rows of AttentionTo, mass, layer=0, head=7"):
        plot.head_masses(table, 0, 7)


def test_scores_with_an_axis_beside_the_heads_are_no_line_a_head(table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"AttentionTo mass has an entry for each head and relation: .*plot\.quantity"):
        plot.head_scores(table, "AttentionTo", "mass")
    ax = plot.head_scores(table[table["relation"] == "I(2)"], "AttentionTo", "mass")
    assert [np.asarray(line.get_xydata()).shape for line in ax.get_lines()] == [(5, 2), (5, 2)]


def test_scores_of_the_whole_model_are_none_of_heads(table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match="Loss excess is of no head"):
        plot.head_scores(table, "Loss", "excess")
