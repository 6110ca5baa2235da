"""Sentences about onsets: what began, and why a curve has none."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.criteria import OnsetVerdict
from stagewise.event import Causes, Context
from stagewise.table import Quantity
from stagewise.words import _onsets as onset_words

POINT = {"step": 3, "cause": "the drop", "fall": 1.0, "start": 2.0, "slowdown": 0.9, "ends_stage": 1}
SCORE = {
    **{"probe": "AttentionTo", "quantity": "mass", "relation": "induction", "layer": 0, "head": 3},
    **{"verdict": "onset", "transient": False, "before": 0.05, "after": 0.7, "last": 0.7, "t90_hi": 300.0},
    **{
        "noise": 0.1,
        "bayes": 3.0,
        "within_gap": False,
        "cause": "a restart",
        "smallest": 0.1,
        "last_step": 100,
        "p_adjusted": 0.2,
        "checkpoints": 3,
        "not_finite_at": 10,
    },
}
MASS = Quantity("attention mass", range=(0, 1), progress="up")
CONTEXT = Context({"AttentionTo": {"mass": MASS}})


def test_every_verdict_against_an_onset_has_a_sentence_and_a_group_of_its_own() -> None:
    against = set(OnsetVerdict) - {OnsetVerdict.ONSET}
    assert len({onset_words.no_onset({**SCORE, "verdict": verdict}) for verdict in against}) == len(against)
    grouped = [verdict for group in onset_words.GROUPS.values() for verdict in group]
    assert sorted([*grouped, OnsetVerdict.COINCIDES]) == sorted(against)


def test_scores_without_onset_are_counted_by_verdict_whatever_their_words_say() -> None:
    verdicts = ["onset", "small", "early", "spike", "steady", "common", "not finite", "few checkpoints"]
    onsets = pd.DataFrame({"verdict": verdicts})
    assert onset_words.without_onset(onsets) == (
        "8 scores were examined, 7 of them without onset: 1 moved too little, 2 moved for a short time, or at first, "
        "2 moved gradually, as at other times, or by noise, 2 cannot be judged."
    )
    assert onset_words.without_onset(onsets[:1]) == "1 score was examined; all have an onset."


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({}, "L0H3 becomes an induction head (0.05 -> 0.70)"),
        ({"relation": "I(2)"}, "L0H3 becomes a head of I(2) (0.05 -> 0.70)"),
        ({"after": 0.4}, "L0H3 attends more to what followed the token before (0.05 -> 0.40)"),
        ({"transient": True, "last": 0.1}, "L0H3 becomes an induction head (0.05 -> 0.70, back to 0.10)"),
        (
            {"t90": np.expm1(np.log1p(100)), "t90_hi": float("inf")},
            "L0H3 becomes an induction head (0.05 -> 0.70, not over yet)",
        ),
        (
            {"t90": 60.0, "t90_hi": float("inf")},
            "L0H3 becomes an induction head (0.05 -> 0.70, perhaps not over yet)",
        ),
    ],
)
def test_a_head_with_a_relation_has_words_of_its_own(row: dict[str, Any], sentence: str) -> None:
    assert onset_words.onset({**SCORE, **row}, MASS) == sentence


@pytest.mark.parametrize(
    ("labels", "quantity", "sentence"),
    [
        ({}, Quantity("loss", progress="down", onset="the loss falls"), "the loss falls (3.00 -> 1.00)"),
        ({}, Quantity("rank", progress="down"), "rank falls (3.00 -> 1.00)"),
        ({"layer": 1, "head": 2}, Quantity("x", progress="down", onset="copies"), "L1H2 copies (3.00 -> 1.00)"),
        ({"layer": 1, "head": 2, "feature": "a"}, Quantity("cosine"), "L1H2, feature a: cosine falls (3.00 -> 1.00)"),
        ({"layer": 1}, Quantity("rank", progress="up"), "layer 1: rank falls (3.00 -> 1.00)"),
    ],
)
def test_an_onset_is_called_what_its_quantity_says(labels: dict[str, Any], quantity: Quantity, sentence: str) -> None:
    row = {"probe": "P", "quantity": "q", **labels, "verdict": "onset", "transient": False, "t90_hi": 1.0}
    assert onset_words.onset({**row, "before": 3.0, "after": 1.0, "last": 1.0}, quantity) == sentence


def test_the_levels_of_a_small_change_have_the_digits_that_show_it() -> None:
    small = {**SCORE, "before": 1e-7, "after": 7e-7, "last": 1e-7, "transient": True}
    assert (
        onset_words.onset(small, MASS)
        == "L0H3 attends more to what followed the token before (1e-07 -> 7e-07, back to 1e-07)"
    )
    assert onset_words.onset({**SCORE, "before": 5.0, "after": 5.04}, MASS).endswith("(5 -> 5.04)")


@pytest.mark.parametrize("number", [1, 9])
def test_too_few_checkpoints_are_counted(number: int) -> None:
    row = {"verdict": "few checkpoints", "checkpoints": number}
    assert (
        onset_words.no_onset(row) == f"has too few checkpoints, {number}: fewer than 10 cannot tell an onset from noise"
    )


def test_of_many_scores_without_onset_those_that_moved_most_are_named() -> None:
    never = {**SCORE, "onset": False}
    rows = [{**never, "head": head, "after": 0.05 + 0.01 * head, "verdict": "small"} for head in range(7)]
    lines = onset_words.no_onsets(pd.DataFrame(rows), CONTEXT)
    shown = [f"L0H{head} induction moves by 0.0{head}, less than 0.1" for head in (6, 5, 4, 3, 2)]
    assert lines == [*shown, "and 2 others"]


def test_what_changed_with_a_cause_is_counted_by_the_cause() -> None:
    verdicts = ["onset", "coincides", "coincides", "coincides"]
    causes: Causes = {"the warm-up": (0, 100), "a restart": 9}
    rate = "the warm-up, until step 100"
    onsets = pd.DataFrame({"verdict": verdicts, "cause": ["", "the warm-up", "the warm-up", "a restart"]})
    assert onset_words.without_onset(onsets, causes) == (
        f"4 scores were examined, 3 of them without onset: 2 may come from {rate}, 1 may come from a restart at step 9."
    )


@pytest.mark.parametrize(("t90", "words"), [(900 * (1 - 1e-12), ", not over yet"), (899.0, ", perhaps not over yet")])
def test_a_transition_up_to_the_last_step_is_not_over_however_its_time_is_rounded(t90: float, words: str) -> None:
    assert onset_words._open_end({"t90": t90, "t90_hi": np.inf, "last_step": 900}) == words
