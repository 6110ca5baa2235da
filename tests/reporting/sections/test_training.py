"""The section of the training loss: which steps are drawn."""

import numpy as np
import pandas as pd
import pytest

from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.training import DRAWN, SECTION


def test_steps_are_drawn_evenly_on_their_logarithmic_axis(measured: Measured) -> None:
    metrics = pd.DataFrame({"step": range(5), "loss": np.linspace(3, 1, 5)})  # 5 ** (0, .25, .5, .75, 1): 1, 1, 2, 3, 5
    (plot,) = SECTION.blocks(measured._replace(metrics=metrics))
    assert isinstance(plot, Plot)
    lines = {str(line.get_label()): line for line in plot.panels[""].get_lines()}  # type: ignore[union-attr]
    assert np.asarray(lines["training batch"].get_ydata()).tolist() == [3, 2.5, 2, 1]
    assert plot.caption.endswith("4 of 5 steps are drawn.")


def test_of_many_steps_the_first_and_the_last_are_drawn_and_the_number_is_told(measured: Measured) -> None:
    metrics = pd.DataFrame({"step": range(20_000), "loss": 1.0})
    (plot,) = SECTION.blocks(measured._replace(metrics=metrics))
    assert isinstance(plot, Plot)
    steps = plot.rows["step"].tolist()
    assert (steps[0], steps[-1]) == (0, 19_999)
    assert steps == sorted(set(steps))
    assert len(steps) <= DRAWN
    assert plot.caption.endswith(f"{len(steps)} of 20000 steps are drawn.")


@pytest.mark.parametrize("metrics", [None, pd.DataFrame({"step": [], "loss": []})], ids=["none", "empty"])
def test_without_metrics_it_is_missing_only_for_what_was_trained_here(
    metrics: pd.DataFrame | None, measured: Measured
) -> None:
    elsewhere = measured._replace(metrics=metrics)
    assert SECTION.blocks(elsewhere) == []
    assert not SECTION.applies(elsewhere)
    assert SECTION.applies(elsewhere._replace(run={"recipe": {"plan": {}}}))
