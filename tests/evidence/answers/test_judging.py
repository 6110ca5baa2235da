"""The judge: right, incomplete and wrong answers are told apart from their events alone."""

from collections.abc import Sequence

import pytest

from evidence.answers.case import Change, Truth
from evidence.answers.judging import Verdict, judged_events
from evidence.answers.told import SPIKE, Told

HEADS = frozenset({"L1H2"})
TRUTH = Truth((Change(500, 500, HEADS), Change(1800, 1900, HEADS, lost=True)))
FIRST = Told(480, 530, HEADS, lost=False, cause=False)
SECOND = Told(1880, 1950, HEADS, lost=True, cause=False)


def verdict(told: Sequence[Told], truth: Truth = TRUTH, named: frozenset[str] = frozenset()) -> Verdict:
    return judged_events(truth, told, named).verdict


def test_all_that_happened_and_nothing_else_is_right() -> None:
    assert verdict([FIRST, SECOND]) == Verdict.RIGHT
    assert verdict([], Truth()) == Verdict.RIGHT


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ([FIRST], "transition 2 is not told"),
        ([FIRST._replace(lo=510), SECOND], "misses its time"),
        ([FIRST._replace(heads=frozenset()), SECOND], "does not name L1H2"),
    ],
    ids=["one missing", "a little late", "no head"],
)
def test_a_part_of_the_truth_is_incomplete(told: list[Told], reason: str) -> None:
    judgement = judged_events(TRUTH, told, frozenset())
    assert judgement.verdict == Verdict.INCOMPLETE
    assert reason in judgement.reasons[0]


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ([], "no transition is told"),
        ([FIRST, SECOND, FIRST._replace(lo=1000, hi=1100)], "1000 to 1100 that was none"),
        ([FIRST._replace(lo=700, hi=750), SECOND], "700 to 750 that was none"),
        ([FIRST._replace(heads=HEADS | {"L0H0"}), SECOND], "names L0H0"),
        ([FIRST, SECOND._replace(lost=False)], "told as a gain"),
    ],
    ids=["none", "one too many", "another time", "another head", "a loss as a gain"],
)
def test_what_is_not_true_is_wrong(told: list[Told], reason: str) -> None:
    judgement = judged_events(TRUTH, told, frozenset())
    assert judgement.verdict == Verdict.WRONG
    assert reason in judgement.reasons[0]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([FIRST, SECOND, FIRST._replace(lo=1000, hi=1100, heads=frozenset({"L0H0"}))], Verdict.RIGHT),
        ([FIRST, SECOND], Verdict.RIGHT),
        ([FIRST, SECOND, FIRST._replace(lo=1000, hi=1100)], Verdict.WRONG),
        ([FIRST, SECOND, FIRST._replace(lo=1200, hi=1300, heads=frozenset({"L0H0"}))], Verdict.WRONG),
        ([FIRST, SECOND, FIRST._replace(lo=1000, hi=1100, heads=frozenset())], Verdict.WRONG),
    ],
    ids=["told", "not told", "another head", "another time", "no head"],
)
def test_what_a_single_head_did_may_be_told_with_its_name(told: list[Told], expected: Verdict) -> None:
    truth = TRUTH._replace(may=(Change(1050, 1080, frozenset({"L0H0"})),))
    assert verdict(told, truth) == expected


def test_an_event_told_twice_is_wrong_and_two_told_as_one_are_not_right() -> None:
    once = Truth((Change(500, 500),))
    assert verdict([FIRST._replace(hi=510), FIRST._replace(lo=511, hi=540)], once) == Verdict.WRONG
    assert verdict([FIRST._replace(lo=400, hi=2000)]) != Verdict.RIGHT


def test_what_else_happened_has_to_be_named() -> None:
    truth = Truth(kinds=frozenset({SPIKE}))
    assert verdict([], truth, frozenset({SPIKE})) == Verdict.RIGHT
    assert verdict([], truth) == Verdict.INCOMPLETE


def test_heads_that_others_come_to_read_may_be_named_and_need_not_be() -> None:
    truth = Truth((Change(500, 500, HEADS, frozenset({"L0H1"})),))
    assert verdict([FIRST], truth) == verdict([FIRST._replace(heads=HEADS | {"L0H1"})], truth) == Verdict.RIGHT
