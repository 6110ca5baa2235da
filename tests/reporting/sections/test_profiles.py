"""The section of profiles: loss over positions, attention over offsets."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.profiles import HEADS, SECTION


def test_the_loss_at_every_position_is_drawn_from_the_first_to_the_last_checkpoint(
    table: pd.DataFrame, measured: Measured
) -> None:
    (plot,) = SECTION.blocks(measured)
    assert isinstance(plot, Plot)
    lines = plot.panels[""].get_lines()  # type: ignore[union-attr]
    for line, step in ((lines[0], 0), (lines[-1], 600)):
        rows = table[(table["probe"] == "LossByPosition") & (table["step"] == step)].sort_values("position")
        np.testing.assert_allclose(np.asarray(line.get_xydata()), rows[["position", "value"]].astype(float))


def test_of_many_heads_the_six_that_moved_most_are_drawn(
    many_heads: Callable[..., pd.DataFrame], bare: Callable[..., Measured]
) -> None:
    rows = pd.concat([many_heads("OffsetProfile", "mass", offset=offset) for offset in range(3)])
    (plot,) = SECTION.blocks(bare(rows))
    assert isinstance(plot, Plot)
    titles = {ax.get_title(loc="left") for ax in plot.panels[""].axes}  # type: ignore[union-attr]
    assert titles == {f"L0H{head}" for head in range(13 - HEADS, 13)}
    assert len(plot.rows) == len(rows)
