"""The section on lineage: the river, and the events as rows."""

from stagewise.findings.lineage import find_lineage
from stagewise.reporting.figure import Plot
from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.lineage import NONE, SECTION
from tests.fixtures.profiles import profile_rows


def test_events_stand_below_the_river(measured: Measured) -> None:
    lineage = find_lineage(profile_rows([*[[None, None]] * 5, *[[None, 4]] * 5]))
    figure, table = SECTION.blocks(measured._replace(lineage=lineage, stages=None))
    assert isinstance(figure, Plot)
    assert len(figure.rows) == 20
    assert isinstance(table, str)
    assert "L0H1 leaves the common pattern: kind 2 (offset 4) is born" in table


def test_a_run_in_which_nothing_happened_says_so(measured: Measured) -> None:
    lineage = find_lineage(profile_rows([[None, 2]] * 5))
    assert SECTION.blocks(measured._replace(lineage=lineage, stages=None))[1] == NONE


def test_a_run_without_patterns_has_no_such_section(measured: Measured) -> None:
    assert SECTION.blocks(measured) == []
