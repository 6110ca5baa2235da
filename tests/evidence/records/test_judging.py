"""The judge of records: right, incomplete, wrong and refused answers are told apart from their data alone."""

from typing import Any

import pytest

from evidence.records.judging import Verdict, judged
from evidence.records.told import Answer, Change, Episode, Visible, answer_of
from evidence.records.truth import Event, Never, Truth

RISE = Event(100, 200, "acc", "rises", named=1, required=True)
TRUTH = Truth("log.csv", 2, (RISE, Event(0, 50, "loss", "falls", 1, required=False)), (Never("lr", "a setting", True),))
TOLD = Change(("acc",), 120, 160, 140, "rises")


def verdict(*changes: Change, truth: Truth = TRUTH, number: int = 1) -> Verdict:
    return judged(truth, Answer(changes, transitions=number)).verdict


def test_all_that_has_to_be_told_and_what_may_be_is_right() -> None:
    assert verdict(TOLD) == Verdict.RIGHT
    assert verdict(TOLD, Change(("loss",), 10, 30, 20, "falls")) == Verdict.RIGHT
    assert verdict(truth=Truth("log.csv", 0, null=True), number=0) == Verdict.RIGHT


def test_a_missing_event_or_one_that_says_too_little_of_when_is_incomplete() -> None:
    assert verdict(number=0) == Verdict.INCOMPLETE
    assert verdict(TOLD._replace(lo=0, hi=600)) == Verdict.INCOMPLETE
    two = TRUTH._replace(events=(RISE._replace(named=2),))
    assert verdict(TOLD, truth=two) == Verdict.INCOMPLETE
    assert verdict(TOLD, TOLD._replace(names=("acc_norm",)), truth=two) == Verdict.RIGHT


@pytest.mark.parametrize(
    "change",
    [
        TOLD._replace(half_way=400, lo=350, hi=450),
        TOLD._replace(direction="falls"),
        TOLD._replace(names=("lr",)),
        TOLD._replace(names=("recall",)),
    ],
    ids=["at another time", "the other way", "of a setting", "of another curve"],
)
def test_a_change_that_was_none_is_wrong_beside_one_that_was(change: Change) -> None:
    assert verdict(TOLD, change) == Verdict.WRONG


def test_more_events_than_there_were_are_wrong() -> None:
    assert verdict(TOLD, number=3) == Verdict.WRONG


def test_a_time_may_lie_outside_its_interval_by_a_part_of_it_if_the_intervals_overlap() -> None:
    late = TOLD._replace(lo=190, hi=240, half_way=214)
    assert verdict(late) == Verdict.RIGHT
    assert verdict(late._replace(half_way=216)) == Verdict.WRONG
    assert verdict(late._replace(lo=201)) == Verdict.WRONG


def test_a_change_that_needs_its_cause_is_wrong_without_it() -> None:
    truth = TRUTH._replace(events=(RISE._replace(cause_needed=True),))
    assert verdict(TOLD, truth=truth) == Verdict.WRONG
    assert verdict(TOLD._replace(cause="the drop"), truth=truth) == Verdict.RIGHT


def test_an_episode_stands_for_the_event_of_its_kind() -> None:
    truth = Truth("log.csv", 1, (RISE._replace(kind="spike"),))
    spike = Episode(("acc",), "spike", 150, 160)
    assert judged(truth, Answer((), (spike,))).verdict == Verdict.RIGHT
    assert judged(truth, Answer((), (spike._replace(kind="overfits"),))).verdict == Verdict.INCOMPLETE
    assert judged(truth, Answer((), (spike._replace(start=300, end=310),))).verdict == Verdict.INCOMPLETE


def test_a_size_beyond_what_a_curve_can_be_is_wrong() -> None:
    truth = Truth("log.csv", 0, bounded="acc", null=True)
    assert judged(truth, Answer(visible=(Visible(("acc",), 1.2),))).verdict == Verdict.WRONG
    assert judged(truth, Answer(visible=(Visible(("acc",), 0.2), Visible(("loss",), 1.2)))).verdict == Verdict.RIGHT


def test_a_refusal_is_right_where_the_truth_says_so() -> None:
    assert judged(TRUTH, None).verdict == Verdict.REFUSED
    assert judged(TRUTH._replace(refused=True), None).verdict == Verdict.RIGHT


def onset(**fields: Any) -> dict[str, Any]:
    """Return a row of the onsets of an answer."""
    times = dict.fromkeys(("t10", "t10_lo", "t90", "t90_hi", "t50_lo", "t50_hi", "layer", "head"))
    row = {"quantity": "acc", "onset": True, "t50": 140.0, "before": 0.1, "after": 0.9, "transient": False}
    return times | row | {"cause": ""} | fields


def test_onsets_are_read_from_json_with_the_best_interval_that_they_have() -> None:
    rows = [
        onset(t50_lo=120.0, t50_hi=160.0),
        onset(t10=100.0, t90=170.0, layer=1.0, head=2.0),
        onset(onset=False),
        onset(transient=True),
    ]
    first, second, third = answer_of({"onsets": rows, "table": [{}, {}], "episodes": [], "power": []}).changes
    assert first == TOLD
    assert (second.lo, second.hi, second.names) == (100, 170, ("acc", "L1H2 acc", "acc/1/2"))
    assert (third.lo, third.hi, third.direction) == (140, 140, "")


def test_of_several_runs_all_that_is_told_counts_and_the_most_transitions() -> None:
    one = {"onsets": [onset()], "table": [{}, {}, {}], "episodes": [], "power": []}
    answer = answer_of([one, one | {"table": [{}]}])
    assert (len(answer.changes), answer.transitions) == (2, 2)
