"""Verdicts: which of them end a stage, and that a table of text holds them."""

import pandas as pd

from stagewise.criteria import OnsetVerdict, TurnVerdict


def test_two_verdicts_end_a_stage() -> None:
    assert {verdict for verdict in TurnVerdict if verdict.ends_stage} == {TurnVerdict.PLATEAU, TurnVerdict.CLOSE}


def test_a_column_of_text_is_compared_with_a_verdict() -> None:
    column = pd.Series(["onset", "small"], dtype="str")
    assert (column == OnsetVerdict.ONSET).tolist() == [True, False]
    assert [OnsetVerdict(value) for value in column] == [OnsetVerdict.ONSET, OnsetVerdict.SMALL]
