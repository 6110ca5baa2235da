"""The sections on places in the sequence."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured
from stagewise.reporting.sections.sequence import COPYING, HEADS, PROFILES


def scores(*names: tuple[str, str]) -> pd.DataFrame:
    rows = [
        {"run": "run", "step": step, "probe": probe, "quantity": name, "value": step / 10 + place}
        for place, (probe, name) in enumerate(names)
        for step in (0, 1, 2)
    ]
    return pd.DataFrame(rows)


def test_scores_are_drawn_below_each_other_in_the_order_of_the_section(bare: Callable[..., Measured]) -> None:
    table = scores(("InContextLearning", "score"), ("Loss", "cross_entropy"), ("Copying", "gain"))
    (plot,) = COPYING.blocks(bare(table))
    assert isinstance(plot, Plot)
    drawn = [ax.get_lines()[0].get_ydata().tolist() for ax in plot.panels[""].axes]  # type: ignore[union-attr]
    assert drawn == [[2.0, 2.1, 2.2], [0.0, 0.1, 0.2]]
    assert len(plot.rows) == 6


def test_the_caption_speaks_of_what_was_measured_alone(bare: Callable[..., Measured]) -> None:
    (plot,) = COPYING.blocks(bare(scores(("Copying", "accuracy"), ("Copying", "gain"))))
    assert isinstance(plot, Plot)
    assert plot.caption.count("random tokens that come twice") == 1
    assert "below zero" not in plot.caption
    assert COPYING.blocks(bare(scores(("Copying", "other")))) == []


def test_the_loss_at_every_position_is_drawn_from_the_first_to_the_last_checkpoint(
    table: pd.DataFrame, measured: Measured
) -> None:
    (plot,) = PROFILES.blocks(measured)
    assert isinstance(plot, Plot)
    lines = plot.panels[""].get_lines()  # type: ignore[union-attr]
    for line, step in ((lines[0], 0), (lines[-1], 600)):
        rows = table[(table["probe"] == "LossByPosition") & (table["step"] == step)].sort_values("position")
        np.testing.assert_allclose(np.asarray(line.get_xydata()), rows[["position", "value"]].astype(float))


def test_of_many_heads_the_six_that_moved_most_are_drawn(
    many_heads: Callable[..., pd.DataFrame], bare: Callable[..., Measured]
) -> None:
    rows = pd.concat([many_heads("OffsetProfile", "mass", offset=offset) for offset in range(3)])
    (plot,) = PROFILES.blocks(bare(rows))
    assert isinstance(plot, Plot)
    titles = {ax.get_title(loc="left") for ax in plot.panels[""].axes}  # type: ignore[union-attr]
    assert titles == {f"L0H{head}" for head in range(13 - HEADS, 13)}
    assert len(plot.rows) == len(rows)
