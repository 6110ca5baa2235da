"""The section of evidence: a row a turning point, only where there are partial solutions."""

from collections.abc import Callable

import pandas as pd
import pytest

from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.evidence import SECTION, _has_partial_solutions


def test_every_turning_point_has_its_row_and_reason(measured: Measured) -> None:
    assert measured.stages is not None
    points = measured.stages.turning_points
    table, explanation = map(str, SECTION.blocks(measured))
    assert table.count("<tr>") == 1 + len(points)
    assert all(name in table for name in points["reference"])
    assert "p" in explanation
    assert SECTION.blocks(measured._replace(stages=None)) == []


@pytest.mark.parametrize(
    ("reference", "references", "expected"),
    [
        (["A*_1", "A*_1:2"], (), True),
        (["trained c=1"], ("A*_1", "A*_1:2"), False),
        ([], ("A*_1", "A*_1:2"), True),
        ([], ("A*_1",), False),
    ],
)
def test_what_was_measured_says_whether_there_are_partial_solutions_else_the_task_does(
    reference: list[str],
    references: tuple[str, ...],
    expected: bool,
    table: pd.DataFrame,
    bare: Callable[..., Measured],
) -> None:
    rows = table[table["reference"].isin(reference) | (table["probe"] == "Loss")]
    assert _has_partial_solutions(bare(rows, references=references)) is expected
