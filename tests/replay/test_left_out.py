"""Predictions left out of training: the transition that they carry waits for them, and another one does not."""

from pathlib import Path
from typing import Any

import pytest

from stagewise.replay.branching import branch
from stagewise.training import train
from stagewise.value_schedules import Steps
from tests.fixtures.two_lags import TWO_LAGS

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked")
QUIET: dict[str, Any] = {"recipe": TWO_LAGS, "controls": False, "progress": False}
NEAR, FAR = ("at positions 3 to 6",), ("at positions 7 to 14",)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(TWO_LAGS, folder, progress=False)
    return folder


def test_a_transition_never_comes_without_the_predictions_that_need_it_and_the_other_one_stays(run: Path) -> None:
    rows = branch(run, [{"plan.leave_out": NEAR}, {"plan.leave_out": FAR}], 0, **QUIET)
    near, far = rows["change"].unique()
    values = rows.set_index(["change", "transition"])["value"]
    assert values[near, "attention to near"] == values[far, "attention to far"] == float("inf")
    assert abs(values[near, "attention to far"]) < 4


def test_predictions_that_are_left_out_for_a_while_delay_what_they_carry(run: Path) -> None:
    rows = branch(run, {"plan.leave_out": Steps((FAR, None), (40,))}, 20, **QUIET)
    (line,) = rows[(rows["transition"] == "attention to far") & (rows["step"] == 20)].to_dict("records")
    assert 4 <= line["lo"] <= line["value"] <= line["hi"] <= 40
