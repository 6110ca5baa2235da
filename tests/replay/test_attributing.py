"""Attribution: the class that carries a transition is found among others, and another transition stays in its place."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stagewise.checkpoints.run_folder import INTERVENTIONS, TABLE
from stagewise.findings.stages import find_stages
from stagewise.replay import Parent
from stagewise.replay.attributing import attribute, transition_named
from stagewise.saved_findings import STAGES
from stagewise.training import train
from tests.fixtures.two_lags import TWO_LAGS

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked")
QUIET: dict[str, Any] = {"recipe": TWO_LAGS, "orders": 1, "progress": False}
NEAR, FAR = (f"without predictions at positions {ends}" for ends in ("3 to 6", "7 to 14"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(TWO_LAGS, folder, progress=False)
    return folder


def test_the_class_that_a_transition_depends_on_is_found_and_the_other_transition_is_not_moved(run: Path) -> None:
    rows = attribute(run, "attention to near", ["at position", "of token 0"], 0, **QUIET)
    without = ["of token 0, at positions 3 to 6", "at positions 7 to 14", "of token 0", "at positions 3 to 6"]
    assert rows["without"].tolist() == ["another batch order", *(f"without predictions {each}" for each in without)]
    assert rows["classes"].tolist() == [0, 2, 1, 1, 1]
    assert rows["apart"].tolist() == [False, True, False, False, True]
    assert rows["value"].tolist()[-1] == float("inf")
    table = pd.read_parquet(run / INTERVENTIONS)
    rows = table[table["transition"] == "attention to far"]
    of_far = dict(zip(rows["change"].tolist(), rows["value"].tolist(), strict=True))
    assert abs(of_far[NEAR]) < 4
    assert of_far[FAR] == float("inf")


def test_a_transition_is_named_by_its_number_in_the_answer_or_by_what_shows_it(run: Path) -> None:
    parent = Parent(run, TWO_LAGS)
    names = {name: transition_named(parent, name, 0) for name in ("1", "transition 1", "attention to far")}
    assert {name: (one.event, one.label) for name, one in names.items()} == {
        "1": (1, "transition 1"),
        "transition 1": (1, "transition 1"),
        "attention to far": (1, "attention to far"),
    }
    for name in ("9", "loss 0.5"):
        with pytest.raises(ValueError, match=rf"no transition '{name}' .* are transition 1 \(number 1, step \d+"):
            transition_named(parent, name, 0)


def test_without_a_table_of_its_own_the_answer_is_found_in_that_of_its_branches_and_saved(run: Path) -> None:
    parent = Parent(run, TWO_LAGS)
    stages = parent.answer
    assert stages is not None
    assert stages.digest == find_stages(parent.table).digest
    assert (run / STAGES).exists()
    assert not (run / TABLE).exists()


def test_predictions_that_are_left_out_for_a_while_delay_what_they_carry(run: Path) -> None:
    rows = attribute(run, "attention to far", ["at position"], 20, 40, **QUIET)
    (line,) = rows[rows["without"] == f"{FAR} until 40"].to_dict("records")
    assert line["apart"]
    assert 4 <= line["lo"] <= line["value"] <= line["hi"] <= 40


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("attention to near", ["at position 3"], 0), r"two classes at least are told apart, \['at position 3'\] are"),
        (("1", ["at position"], 90), "the answer names no transition of run after step 90 that its loss"),
        (("attention to it", ["at position"], 0), "no transition 'attention to it' comes after step 0; there are"),
        (("1", ["at position"], 100), "leave classes out from an earlier one than 100"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(run: Path, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        attribute(run, *arguments, **QUIET)
