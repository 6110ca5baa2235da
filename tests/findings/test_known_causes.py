"""What was done to a run: a step or two by a name, the same from Python as from JSON; what else is given is refused."""

import json
import math
from typing import Any

import numpy as np
import pytest

from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings._known_causes import cause_during, cause_within, known
from stagewise.findings.onsets import find_onsets
from stagewise.words._onsets import cause

GIVEN: dict[str, Any] = {
    "a restart": np.int64(3000),
    "the warm-up": np.array([0, 500]),
    "a drop": 2.5,
    "a batch": (10, 20),
}


@pytest.mark.usefixtures("unchecked")
def test_causes_are_saved_and_read_as_what_they_are() -> None:
    expected = {"a restart": 3000, "the warm-up": (0, 500), "a drop": 2.5, "a batch": (10, 20)}
    assert known(GIVEN) == known(json.loads(json.dumps(known(GIVEN)))) == expected


@pytest.mark.parametrize(
    "at", ["3000", None, math.nan, math.inf, (1,), (1, 2, 3), (20, 10), (0, "9"), [[0, 1], [2, 3]]]
)
@pytest.mark.usefixtures("unchecked")
def test_what_is_no_step_is_refused(at: Any) -> None:
    with pytest.raises(ValueError, match=r"^the cause 'x' takes a step, or its first and its last one, as .*; got "):
        find_onsets(read_log({"step": range(9), "loss": range(9)}), causes={"x": at})


@pytest.mark.parametrize("causes", [[3000], "a drop", 3000])
@pytest.mark.usefixtures("unchecked")
def test_what_names_no_steps_is_refused(causes: Any) -> None:
    with pytest.raises(ValueError, match=r"^causes are names with a step each, as .*; got "):
        find_onsets(read_log({"step": range(9), "loss": range(9)}), causes=causes)


def test_a_cause_that_lasts_is_named_until_the_next_checkpoint() -> None:
    causes = known({"late": (3e6, 4e6), "a batch": (10, 20), "the warm-up": (0, 15), "a drop": 12})
    named = [cause_during(causes, at, [0, 10, 18, 30]) for at in (5, 18, 19, 30, 31, 3_500_000)]
    assert named == ["the warm-up", *["a batch"] * 3, "", "late"]
    assert cause_within(causes, 0, 20, 15) == "a drop"
    assert cause("a batch", causes) == "a batch, from step 10 on, until step 20"
    assert cause("late", causes) == "late, from step 3000000 on, until step 4000000"
    assert cause("a drop", causes) == "a drop at step 12"
