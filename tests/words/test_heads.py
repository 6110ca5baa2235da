"""What is said of heads and of what emerged, from events and onsets made by hand."""

import math
from typing import Any

import pandas as pd
import pytest

from stagewise.event import HalfWay
from stagewise.statistics import Interval, StageCriteria
from stagewise.statistics._crossings import Rise
from stagewise.words import _heads as head_words

WEIGHTS = HalfWay("weights", "L0H0, copy", 0.2, Interval(200, 250))
ACCURACY = HalfWay("accuracy", "accuracy", 0.5, Interval(500, 550))
LOSS = HalfWay("loss", "loss", 2.0, Interval(520, 560))
RISE = Rise(Interval(450, 500), Interval(500, 550), Interval(600, 650), first=0)


def test_what_came_first_is_said_first_and_overlapping_intervals_come_together() -> None:
    assert head_words.emergence([WEIGHTS, ACCURACY, LOSS], RISE) == (
        "The plateau lasts until step 450; the accuracy is half-way between steps 500 and 550 and has nine tenths of "
        "its rise by step 650. Half-way came weights (L0H0, copy: steps 200 to 250), then accuracy (steps 500 to 550), "
        "together with loss (steps 520 to 560)."
    )


def test_an_accuracy_that_rises_from_the_first_checkpoint_on_has_no_plateau() -> None:
    said = [head_words.emergence([ACCURACY], RISE._replace(first=first)) for first in (450, 400)]
    assert said[0].startswith("No plateau is seen; the accuracy is half-way")
    assert said[1].startswith("The plateau lasts until step 450; ")


def test_of_several_events_of_a_kind_the_first_is_said() -> None:
    late = HalfWay("weights", "L1H0, copy", 0.2, Interval(300, 350))
    assert "L1H0" not in head_words.emergence([WEIGHTS, late], None)


def test_a_rise_that_is_not_over_ends_at_the_end_and_no_rise_is_said_too() -> None:
    assert "nine tenths of its rise by the end." in head_words.emergence(
        [ACCURACY], RISE._replace(most=Interval(900, math.inf))
    )
    assert head_words.emergence([WEIGHTS], None).startswith("The accuracy did not rise. ")
    assert head_words.emergence([], None).startswith("Nothing emerged in this run")


def head(kind: str, t50: float, largest: float = 0.6, named: bool = True) -> dict[str, Any]:
    times = {"t50": t50, "t50_lo": t50 - 10, "t50_hi": t50 + 10, "before": 0.1, "last": largest}
    own = {"kind": kind, "layer": 0, "head": 1, "largest": largest, "named": named, "onset": named}
    return {**own, **times, "after": largest, "verdict": "common"}


@pytest.mark.parametrize(
    ("induction", "sentence"),
    [
        (head("induction", 300), "So previous-token heads come before induction heads."),
        (head("induction", 105), "Which kind came first cannot be decided: the intervals of previous-token"),
        (head("induction", 300, 0.2, named=False), "come before induction heads, if any form."),
    ],
)
def test_an_order_is_claimed_where_the_intervals_show_it(induction: dict[str, Any], sentence: str) -> None:
    assert sentence in head_words.heads(pd.DataFrame([head("previous-token", 100), induction]), last=900)


def test_a_kind_without_a_name_that_has_enough_attention_leaves_the_order_open() -> None:
    onsets = pd.DataFrame([head("previous-token", 100), head("induction", 300, 0.2, named=False)])
    assert "come before" in head_words.heads(onsets, 900)
    assert "come before" not in head_words.heads(onsets, 900, StageCriteria(named=0.1))


def test_the_cells_of_a_head_hold_its_time_or_the_reason_against_one() -> None:
    onsets = pd.DataFrame([head("induction", 300, named=False), head("previous-token", 100)])
    first, second = head_words.head_rows(onsets, "text")
    assert first == ["text", "previous-token", "L0H1", "0.10", "0.60", "0.60", "100 [90, 110]"]
    assert second[-1] == "no onset: moves no faster than before or after"
