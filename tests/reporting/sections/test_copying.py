"""The section on copying: each score that was measured, and what to look for in it."""

from collections.abc import Callable

import pandas as pd

from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.copying import SECTION


def scores(*names: tuple[str, str]) -> pd.DataFrame:
    rows = [
        {"run": "run", "step": step, "probe": probe, "quantity": name, "value": step / 10 + place}
        for place, (probe, name) in enumerate(names)
        for step in (0, 1, 2)
    ]
    return pd.DataFrame(rows)


def test_scores_are_drawn_below_each_other_in_the_order_of_the_section(bare: Callable[..., Measured]) -> None:
    table = scores(("InContextLearning", "score"), ("Loss", "cross_entropy"), ("Copying", "gain"))
    (plot,) = SECTION.blocks(bare(table))
    assert isinstance(plot, Plot)
    drawn = [ax.get_lines()[0].get_ydata().tolist() for ax in plot.panels[""].axes]  # type: ignore[union-attr]
    assert drawn == [[2.0, 2.1, 2.2], [0.0, 0.1, 0.2]]
    assert len(plot.rows) == 6


def test_the_caption_speaks_of_what_was_measured_alone(bare: Callable[..., Measured]) -> None:
    (plot,) = SECTION.blocks(bare(scores(("Copying", "accuracy"), ("Copying", "gain"))))
    assert isinstance(plot, Plot)
    assert plot.caption.count("random tokens that come twice") == 1
    assert "below zero" not in plot.caption
    assert SECTION.blocks(bare(scores(("Copying", "other")))) == []
