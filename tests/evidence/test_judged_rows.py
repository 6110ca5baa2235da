"""Rows of judged answers are printed as they come, counted, and are lines of a table."""

from typing import NamedTuple

import pytest

from evidence.judged_rows import line, told


class Row(NamedTuple):
    """A row of either page."""

    name: str
    said: str
    verdict: str
    reasons: list[str]


RIGHT, WRONG = Row("one", "a fall", "right", []), Row("two", "x | *y* <z>\nw", "wrong", ["late", "no head"])


def test_rows_are_printed_counted_and_returned(capsys: pytest.CaptureFixture[str]) -> None:
    assert told(iter([RIGHT, WRONG])) == [RIGHT, WRONG]
    first, *_, counts = capsys.readouterr().out.splitlines()
    assert first == "RIGHT one | a fall | "
    assert counts == "{'right': 1, 'wrong': 1}"


def test_a_line_of_a_table_has_its_cells_and_the_verdict_with_its_reasons() -> None:
    assert line(RIGHT, RIGHT.name, RIGHT.said) == "| one | a fall | right |"
    assert line(WRONG, WRONG.said) == r"| x \| \*y\* &lt;z> w | wrong: late; no head |"
