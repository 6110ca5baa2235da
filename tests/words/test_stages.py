"""Words are made from verdicts and numbers: each verdict has its sentence, and nothing is counted by text."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from stagewise.event import Causes
from stagewise.statistics import OnsetVerdict, StageCriteria, TurnVerdict
from stagewise.table import Quantity
from stagewise.words import stages as words

POINT = {"step": 3, "cause": "the drop", "fall": 1.0, "start": 2.0, "slowdown": 0.9, "ends_stage": 1}
SCORE = {
    **{"probe": "AttentionTo", "quantity": "mass", "relation": "induction", "layer": 0, "head": 3},
    **{"verdict": "onset", "transient": False, "before": 0.05, "after": 0.7, "last": 0.7, "t90_hi": 300.0},
    **{
        "noise": 0.1,
        "share": 0.3,
        "cause": "a restart",
        "smallest": 0.1,
        "last_step": 100,
        "p_adjusted": 0.2,
        "checkpoints": 3,
        "not_finite_at": 10,
    },
}
MASS = Quantity("attention mass", range=(0, 1), progress="up")
CONTEXT = words.Context({"AttentionTo": {"mass": MASS}})


def test_every_verdict_on_a_turning_point_has_a_sentence_of_its_own() -> None:
    sentences = {words.turning_point({**POINT, "verdict": verdict}) for verdict in TurnVerdict}
    assert len(sentences) == len(TurnVerdict)


def test_every_verdict_against_an_onset_has_a_sentence_and_a_group_of_its_own() -> None:
    against = set(OnsetVerdict) - {OnsetVerdict.ONSET}
    assert len({words.no_onset({**SCORE, "verdict": verdict}) for verdict in against}) == len(against)
    grouped = [verdict for group in words.GROUPS.values() for verdict in group]
    assert sorted([*grouped, OnsetVerdict.COINCIDES]) == sorted(against)


def test_the_thresholds_in_a_sentence_are_those_that_decided() -> None:
    small = {**SCORE, "verdict": "small", "after": 0.25}
    assert words.no_onset({**small, "smallest": 0.3}) == "moves by 0.2, less than 0.3"
    assert "less than 20% of its fall" in words.turning_point({"verdict": "no rise"}, StageCriteria(depth=0.2))


def test_scores_without_onset_are_counted_by_verdict_whatever_their_words_say() -> None:
    verdicts = ["onset", "small", "noise", "gradual", "common", "spike", "steady", "not finite", "few checkpoints"]
    onsets = pd.DataFrame({"verdict": verdicts})
    assert words.without_onset(onsets) == (
        "9 scores were examined, 8 of them without onset: 2 moved too little, or by noise alone, 3 moved gradually, as "
        "at other times, or at one checkpoint, 1 may be smooth, 2 cannot be judged."
    )
    assert words.without_onset(onsets[:1]) == "1 score was examined; all have an onset."


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
    assert words.onset({**SCORE, **row}, MASS) == sentence


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
    assert words.onset({**row, "before": 3.0, "after": 1.0, "last": 1.0}, quantity) == sentence


def test_the_levels_of_a_small_change_have_the_digits_that_show_it() -> None:
    small = {**SCORE, "before": 1e-7, "after": 7e-7, "last": 1e-7, "transient": True}
    assert (
        words.onset(small, MASS)
        == "L0H3 attends more to what followed the token before (1e-07 -> 7e-07, back to 1e-07)"
    )
    assert words.onset({**SCORE, "before": 5.0, "after": 5.04}, MASS).endswith("(5 -> 5.04)")


@pytest.mark.parametrize("number", [1, 9])
def test_too_few_checkpoints_are_counted(number: int) -> None:
    row = {"verdict": "few checkpoints", "checkpoints": number}
    assert words.no_onset(row) == f"has too few checkpoints, {number}: fewer than 10 cannot tell an onset from noise"


def test_heads_that_did_the_same_are_said_together() -> None:
    events = pd.DataFrame(
        [(0, 0, "diffuse", "I(1)"), (0, 1, "diffuse", "I(1)"), (0, 0, "I(1)", "I(2)"), (0, 1, "I(1)", "diffuse")],
        columns=["layer", "head", "before", "after"],
    )
    assert words.head_events(events) == ["L0H0, L0H1 take I(1)", "L0H0 leaves I(1) for I(2)", "L0H1 leaves I(1)"]


def test_of_many_scores_without_onset_those_that_moved_most_are_named() -> None:
    never = {**SCORE, "onset": False}
    rows = [{**never, "head": head, "after": 0.05 + 0.01 * head, "verdict": "small"} for head in range(7)]
    lines = words.no_onsets(pd.DataFrame(rows), CONTEXT)
    shown = [f"L0H{head} induction moves by 0.0{head}, less than 0.1" for head in (6, 5, 4, 3, 2)]
    assert lines == [*shown, "and 2 others"]


def test_what_changed_with_a_cause_is_counted_by_the_cause() -> None:
    verdicts = ["onset", "coincides", "coincides", "coincides"]
    causes: Causes = {"the warm-up": (0, 100), "a restart": 9}
    rate = "the warm-up, until step 100"
    onsets = pd.DataFrame({"verdict": verdicts, "cause": ["", "the warm-up", "the warm-up", "a restart"]})
    onsets["onset"] = onsets["verdict"] == "onset"
    assert words.without_onset(onsets, causes) == (
        f"4 scores were examined, 3 of them without onset: 2 may come from {rate}, 1 may come from a restart at step 9."
    )
    assert words.with_causes(onsets, causes) == [
        f"not counted: 2 more that may come from {rate}",
        "not counted: 1 more that may come from a restart at step 9",
    ]
    assert words.with_causes(onsets[1:], causes) == []  # `no_onsets` has the reasons


def test_of_many_onsets_the_largest_are_named_in_their_order() -> None:
    n = words.LISTED + 3
    sizes = [0.1 * ((7 * i) % n + 1) for i in range(n)]
    row = {"probe": "P", "quantity": "q", "position": range(n), "verdict": "onset", "onset": True, "transient": False}
    rows = pd.DataFrame({**row, "before": 0.0, "after": sizes, "t90_hi": 1.0})
    rows = rows.assign(t50=range(n), t50_lo=range(n), t50_hi=range(n))
    named = words.onset_stage(rows, CONTEXT).split("; ")
    largest = sorted(sorted(range(n), key=lambda i: -sizes[i])[: words.LISTED])
    assert [phrase.split(":")[0] for phrase in named[:-1]] == [f"position {i}" for i in largest]
    assert named[-1] == "and 3 more"
    assert [line.split(": ")[1] for line in words.began(rows, CONTEXT)[:-1]] == [f"position {i}" for i in largest]
