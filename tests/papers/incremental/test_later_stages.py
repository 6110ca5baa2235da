"""Stages of a loss: where it passes half-way, the levels between, and a run beside its flow."""

from pathlib import Path

import numpy as np
import pytest

from stagewise.papers.incremental import _later_stages as later
from stagewise.papers.incremental._later_stages import figure_regression, stages

pytestmark = pytest.mark.usefixtures("unchecked")

LEVELS = np.array([6.0, 2.0, 0.0])


def test_stages_end_half_way_between_plateaus_and_the_level_is_where_the_loss_stands() -> None:
    steps = np.arange(0.0, 401.0)
    losses = np.interp(steps, [0, 100, 200, 210, 400], [6.0, 2.0, 2.0, 1.9, 0.0])
    ends, levels = stages(steps, losses, LEVELS)
    assert ends == pytest.approx([50.0, 300.0], abs=1)
    assert levels == pytest.approx([2.0])


def test_a_stage_that_does_not_end_is_infinite_and_has_no_level() -> None:
    ends, levels = stages(np.arange(10.0), np.full(10, 6.0), LEVELS)
    assert ends == [np.inf, np.inf]
    assert np.isnan(levels).all()


def test_a_short_run_gives_its_first_stage_beside_the_flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later, "STEPS", 150)
    ours = figure_regression(tmp_path, seeds=(1, 2), progress=False).numbers.set_index("quantity")["ours"].to_dict()
    assert float(ours["steps of SGD over the flow's, end of stage 1"]) == pytest.approx(1, abs=0.1)
    assert ours["steps of SGD over the flow's, end of stage 3"] == "never"


@pytest.mark.slow
def test_sgd_keeps_to_the_flow_through_all_stages(tmp_path: Path) -> None:
    numbers = figure_regression(tmp_path, seeds=(2,), progress=False).numbers
    assert numbers["ours"].astype(float).tolist() == pytest.approx([1] * 5, abs=0.1)
