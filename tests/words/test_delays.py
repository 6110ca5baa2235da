"""Delays in words: what is not known is left open."""

import math
from collections.abc import Mapping

import pandas as pd

from stagewise.event import Event, EventKind
from stagewise.findings.delays import Comparison
from stagewise.table import Quantity
from stagewise.words._delays import (
    branch_in_words,
    certified_in_words,
    comparison,
    delay_in_words,
    delays_in_words,
    end_in_words,
    held_in_words,
    later,
    left_out_in_words,
    names,
)
from stagewise.words.stages import too_few


def test_a_delay_has_its_interval_and_an_open_end_is_said_to_be_open() -> None:
    assert delay_in_words(45.0, 30.0, 60.0) == "45 [30, 60] steps later"
    assert delay_in_words(math.inf, -math.inf, math.inf) == "no more, or at any step"
    assert (
        delay_in_words(math.nan, -math.inf, 40.0) == "at a step that tells nothing: it does not come in the run beside"
    )
    assert end_in_words(-0.2) == "0"


def test_what_was_held_is_a_relation_or_a_kind() -> None:
    row = {"layer": 1, "head": 2, "kind": "uniform", "relation": ""}
    assert held_in_words(row) == "L1H2 uniform"
    assert held_in_words({**row, "kind": "relation", "relation": "I(2)"}) == "L1H2 on I(2)"


def test_a_certificate_says_the_delay_of_a_head_that_speeds_a_transition_up() -> None:
    row = {
        "transition": "attention to I(2)",
        "event": 1,
        "comes": 164.6,
        "step": 120,
        "seeds": 1,
        "lo": 30.0,
        "hi": 60.0,
    }
    rows = [{**row, "subject": f"L0H{head}", "value": 45.0} for head in range(3)]
    verdicts = ["needed", "speeds it up", "does not matter"]
    said = certified_in_words([{**row, "verdict": verdict} for row, verdict in zip(rows, verdicts, strict=True)])
    assert said.startswith("A head attends to I(2) (transition 1) at step 165: ")
    assert "L0H0 is needed; L0H1 (without it 45 [30, 60] steps later) speeds it up; L0H2 does not matter" in said
    assert said.endswith("(taken away from step 120 on, in one order of the batches).")


def test_a_delay_that_may_be_none_or_not_known_to_end_says_from_when_on() -> None:
    assert delay_in_words(-0.2, -math.inf, 3.0) == "0 [..., 3] steps later"
    assert delay_in_words(math.inf, 190.0, math.inf) == "no more, or more than 190 steps later"
    assert delay_in_words(math.inf, -6.0, math.inf) == "no more, or from 6 steps earlier on"
    assert delay_in_words(math.inf, 0.0, math.inf) == "no more, or at the same step at the earliest"


def test_a_change_is_a_setting_or_a_head_with_the_order_of_its_batches() -> None:
    assert branch_in_words({"change": "task.p=0.0", "seed": 2}) == "task.p=0.0, order 2"
    assert branch_in_words({"layer": 0, "head": 1, "kind": "out"}) == "L0H1 out"


def test_classes_that_are_left_out_are_listed() -> None:
    assert left_out_in_words(["of token 7", "of new tokens"]) == "without predictions of token 7, of new tokens"


def test_without_a_head_another_one_has_to_attend() -> None:
    row = {"layer": 0, "head": 1, "kind": "out", "step": 120, "control": "head", "value": 45.0, "lo": 30.0, "hi": 60.0}
    labels = ("transition 2", "attention to I(2)")
    loss, attention = (delays_in_words({**row, "event": 2, "transition": label}) for label in labels)
    assert loss == "L0H1 out from 120 (head): transition 2 comes in the loss 45 [30, 60] steps later"
    assert attention == "L0H1 out from 120 (head): another head attends to I(2) (transition 2) 45 [30, 60] steps later"
    alone = delays_in_words({**row, "transition": "attention to I(2)"})
    assert alone.endswith("another head attends to I(2) 45 [30, 60] steps later")


HEAD = Event(EventKind.ONSET, "AttentionTo", "mass", (("layer", 0), ("head", 0), ("relation", "I(1)")))
MASS = {"AttentionTo": {"mass": Quantity("attention mass", range=(0, 1), progress="up")}}


def roles(distance: float, head: int = 1) -> pd.DataFrame:
    of = {"layer": 0, "role": 0, "distance": distance}
    return pd.DataFrame([{**of, "run": "one", "head": 0}, {**of, "run": "two", "head": head}])


def compared(roles: pd.DataFrame, unknown: Mapping[str, tuple[int, int]] | None = None) -> Comparison:
    return Comparison(("one", "two"), pd.DataFrame(), roles, unknown or {}, (HEAD,), MASS)


def test_a_head_has_the_names_of_both_runs_and_an_unsure_pair_is_said_to_be() -> None:
    assert names(compared(roles(0.1))) == ["L0H0 (in two L0H1) attends more to I(1)"]
    assert names(compared(roles(0.9))) == ["L0H0 (in two perhaps L0H1) attends more to I(1)"]
    assert names(compared(roles(0.1, head=0))) == ["L0H0 attends more to I(1)"]
    alone = roles(0.1, head=2).query("run == 'two'")
    assert names(compared(alone)) == ["L0H2 of two attends more to I(1)"]


def test_runs_without_events_are_said_to_have_none() -> None:
    assert comparison(compared(roles(0.1))) == ["neither run has a boundary or an onset"]
    assert comparison(compared(roles(0.1), {"two": (3, 8)})) == [
        f"in two {too_few(3, 8)}",
        "no boundary and no onset in one",
    ]


def test_an_event_comes_later_or_it_cannot_be_told_which_is_earlier() -> None:
    assert later({"later": 30.0, "later_lo": 10.0, "later_hi": 50.0}) == "30 [10, 50] steps later"
    unsure = later({"later": -3.0, "later_lo": -10.0, "later_hi": 5.0})
    assert unsure == "which is earlier cannot be told: -3 [-10, 5] steps"
