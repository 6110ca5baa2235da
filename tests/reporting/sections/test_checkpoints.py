"""The section with a slider over every checkpoint."""

from collections.abc import Callable

import pandas as pd

from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.checkpoints import SECTION


def test_the_slider_goes_over_the_checkpoints_that_have_maps(
    table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    early = table[(table["probe"] != "MeanPattern") | (table["step"] <= 40)]
    (shown,) = SECTION.blocks(bare(early))
    assert '"steps":[0,20,40]' in str(shown)
    assert '"heads":["L0H0","L0H1"]' in str(shown)


def test_without_maps_there_is_no_slider_and_it_is_not_missing(
    table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    without = bare(table[table["probe"] != "MeanPattern"])
    assert (SECTION.blocks(without), SECTION.applies(without)) == ([], False)
