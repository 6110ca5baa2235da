"""Figures of heads."""

import pandas as pd
import pytest

from stagewise import plot


def test_a_figure_of_rows_that_are_not_there_says_what_there_is(table: pd.DataFrame) -> None:
    with pytest.raises(ValueError, match=r"no rows of AttentionTo, mass, layer=0, head=7"):
        plot.head_masses(table, 0, 7)
