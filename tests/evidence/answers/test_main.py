"""The answer table: cases that cost little are answered rightly, and the page counts what was judged."""

import re
from pathlib import Path

import pytest

from evidence.answers import __main__ as answers
from evidence.answers.page import Row, page
from evidence.answers.told import KINDS

CHEAP = (
    *("jump of accuracy and loss", "jump of eight tasks", "two jumps", "grokking", "skill lost again"),
    *("power law", "line", "ten curves of noise", "exponential approach", "six evaluations", "twelve evaluations"),
    *("logarithmic evaluations", "jump between clumps"),
)


@pytest.mark.one_of(6)
@pytest.mark.parametrize("name", CHEAP)
def test_a_cheap_case_is_answered_rightly_and_read_again_as_it_was(name: str, tmp_path: Path) -> None:
    row = answers.asked(f"log: {name}", tmp_path)
    assert (row.verdict, row.reasons) == ("right", [])
    assert row.said
    assert answers.asked(f"log: {name}", tmp_path) == row


def test_there_are_sixty_cases_or_more_each_with_a_folder_and_a_sentence_of_its_own() -> None:
    cases = answers.cases()
    assert len(cases) >= 60
    assert len({answers.place(name) for name in cases}) == len(cases)
    assert all(
        re.fullmatch(r"[A-Z].*\.", case.sentence) or case.sentence.startswith("llm.c") for case in cases.values()
    )


def test_what_has_to_be_named_is_a_kind_that_can_be_told() -> None:
    truths = [case.truth for case in answers.cases().values() if not callable(case.truth)]
    assert set().union(*(truth.kinds for truth in truths)) <= KINDS


def test_the_page_counts_what_was_asked_and_keeps_a_row_of_each_in_one_line() -> None:
    rows = [
        Row("one", "A | B.", "Said\nso.", "right", []),
        Row("two", "C.", "A*_1.", "wrong", ["too many"]),
        Row("three", "D.", "", "skipped", ["not there"]),
    ]
    written = page(rows)
    assert "1 of 2 are right, 0 incomplete, 1 wrong" in written
    assert r"| one | A \| B. | Said so. | right |" in written
    assert r"| two | C. | A\*_1. | wrong: too many |" in written
    assert "Not asked this time: three." in written
