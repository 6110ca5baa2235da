"""The section that shows the last checkpoint in circuitsvis."""

from collections.abc import Callable

import pandas as pd

from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.last_checkpoint import SECTION


def test_the_last_checkpoint_with_maps_is_shown_in_a_place_that_its_script_fills(
    table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    early = table[(table["probe"] != "MeanPattern") | (table["step"] <= 40)]
    _, place, script = map(str, SECTION.blocks(bare(early)))
    assert "Step 40, the end" in place
    assert '<div id="circuitsvis">' in place
    assert 'CircuitsVis.render("circuitsvis", CircuitsVis.AttentionHeads, {' in script


def test_without_maps_nothing_is_shown(table: pd.DataFrame, bare: Callable[..., Measured]) -> None:
    assert SECTION.blocks(bare(table[table["probe"] != "MeanPattern"])) == []
