"""Words are made from verdicts and numbers: each verdict has its sentence, and nothing is counted by text."""

import pandas as pd

from stagewise.criteria import StageCriteria, TurnVerdict
from stagewise.event import Context
from stagewise.table import Quantity
from stagewise.words import _onsets as onset_words
from stagewise.words import stages as lineage_words
from stagewise.words import stages as words

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


def test_every_verdict_on_a_turning_point_has_a_sentence_of_its_own() -> None:
    sentences = {words.turning_point({**POINT, "verdict": verdict}) for verdict in TurnVerdict}
    assert len(sentences) == len(TurnVerdict)


def test_the_thresholds_in_a_sentence_are_those_that_decided() -> None:
    small = {**SCORE, "verdict": "small", "after": 0.25}
    assert onset_words.no_onset({**small, "smallest": 0.3}) == "moves by 0.2, less than 0.3"
    assert "less than 20% of its fall" in words.turning_point({"verdict": "no rise"}, StageCriteria(depth=0.2))


def test_heads_that_did_the_same_are_said_together() -> None:
    events = pd.DataFrame(
        [(0, 0, "diffuse", "I(1)"), (0, 1, "diffuse", "I(1)"), (0, 0, "I(1)", "I(2)"), (0, 1, "I(1)", "diffuse")],
        columns=["layer", "head", "before", "after"],
    )
    assert words.head_events(events) == ["L0H0, L0H1 take I(1)", "L0H0 leaves I(1) for I(2)", "L0H1 leaves I(1)"]


def test_of_many_onsets_the_largest_are_named_in_their_order() -> None:
    n = onset_words.LISTED + 3
    sizes = [0.1 * ((7 * i) % n + 1) for i in range(n)]
    row = {"probe": "P", "quantity": "q", "position": range(n), "verdict": "onset", "onset": True, "transient": False}
    rows = pd.DataFrame({**row, "before": 0.0, "after": sizes, "t10": 1.0, "t90": 1.0, "t90_hi": 1.0})
    rows = rows.assign(t50=range(n), t50_lo=range(n), t50_hi=range(n))
    named = words.onset_stage(rows, CONTEXT).split("; ")
    largest = sorted(sorted(range(n), key=lambda i: -sizes[i])[: onset_words.LISTED])
    assert [phrase.split(":")[0] for phrase in named[:-1]] == [f"position {i}" for i in largest]
    assert named[-1] == "and 3 more"


NAMES = {1: "diffuse", 2: "I(1)"}


def test_verbs_agree_with_the_number_of_heads() -> None:
    row = {"event": "birth", "before": "1", "after": "2"}
    one = lineage_words.event({**row, "heads": "L0H0"}, NAMES)
    two = lineage_words.event({**row, "heads": "L0H0 L0H1"}, NAMES)
    assert one == "L0H0 leaves the common pattern: kind 2 (I(1)) is born"
    assert two == "L0H0, L0H1 leave the common pattern: kind 2 (I(1)) is born"


def test_a_run_without_events_says_so() -> None:
    assert lineage_words.events(pd.DataFrame(), pd.DataFrame()) == ["no kind is born, splits, merges, changes or dies"]
