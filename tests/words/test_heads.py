"""Sentences about heads, from onsets made by hand."""

from typing import Any

import pandas as pd
import pytest

from stagewise.statistics import StageCriteria
from stagewise.words import _heads as head_words


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
