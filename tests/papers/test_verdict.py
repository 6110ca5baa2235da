"""Verdicts follow from numbers alone."""

from dataclasses import replace

import pytest

from stagewise.papers.verdict import Number, Row, Verdict, exactly, numbers_in, verdict

FIVE = Number("5 [4, 6]", 5.0, 4.0, 6.0)
EXACT = exactly(5.0, "5")


@pytest.mark.parametrize(
    ("here", "published", "null", "expected"),
    [
        (FIVE, "5.5", 0, Verdict.UNDECIDED),
        (FIVE, "6", 0, Verdict.AGREES),
        (FIVE, "6", 1, Verdict.UNDECIDED),
        (FIVE, "7", 0, Verdict.DIFFERS),
        (replace(FIVE, complete=False), "6", 0, Verdict.UNDECIDED),
        (EXACT, "5", 0, Verdict.AGREES),
        (EXACT, "6", 0, Verdict.DIFFERS),
        (EXACT, "4.7 to 5.1", 0, Verdict.AGREES),
        (EXACT, "5.04", 0, Verdict.DIFFERS),
        (numbers_in("5.1")[0], "5.14", 0, Verdict.AGREES),
        (numbers_in("never")[0], "5", 0, Verdict.DIFFERS),
        (numbers_in("never")[0], "never", 0, Verdict.AGREES),
    ],
)
def test_a_published_number_agrees_within_a_narrow_interval(
    here: Number, published: str, null: int, expected: Verdict
) -> None:
    assert verdict(Row((here,), tuple(numbers_in(published)), (float(null),))) is expected


@pytest.mark.parametrize(
    ("shape", "text", "expected"),
    [
        ("rising", "1, 2.5, never", Verdict.IN_SHAPE),
        ("rising", "1, 2, 2", Verdict.DIFFERS),
        ("falling", "3, 1.0", Verdict.IN_SHAPE),
        ("above 1", "1.1 to 3, 2", Verdict.IN_SHAPE),
        ("above 1", "0.9 to 3, 2", Verdict.UNDECIDED),
        ("above 1", "0.5 to 0.9, 2", Verdict.DIFFERS),
        ("below 0", "-2 to -1", Verdict.IN_SHAPE),
        ("below 0", "-2 to 1", Verdict.UNDECIDED),
        ("together", "1 to 3, 2 to 4", Verdict.IN_SHAPE),
        ("together", "1 to 3, 4 to 5", Verdict.DIFFERS),
        ("within", "1 to 3", Verdict.IN_SHAPE),
    ],
)
def test_a_shape_is_an_order_or_a_sign(shape: str, text: str, expected: Verdict) -> None:
    assert verdict(Row(tuple(numbers_in(text)), shape=shape)) is expected


def test_the_worst_of_several_numbers_counts_and_a_shorter_run_was_not_run() -> None:
    row = Row((FIVE, EXACT, EXACT), tuple(numbers_in("5.5, 6, 5")), (0.0, 0.0, 0.0))
    assert verdict(row) is Verdict.DIFFERS
    assert verdict(replace(row, length=(300, 1500))) is Verdict.NOT_RUN
    assert verdict(replace(row, length=(1500, 1500))) is Verdict.DIFFERS
