"""The section of the audit: every fault with its steps, nothing where there is none."""

import pytest

from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.audit import SECTION

DAMAGED = {"kind": "damaged", "steps": [3, 17], "message": "a < b"}


def test_faults_are_counted_and_listed_with_their_steps(measured: Measured) -> None:
    lead, table = SECTION.blocks(measured._replace(run={"audit": {"findings": [DAMAGED]}}))
    assert "found 1 fault." in str(lead)
    cells = [part.partition("</td>")[0].partition(">")[2] for part in str(table).split("<td")[1:]]
    assert cells == ["damaged", "3, 17", "a &lt; b"]
    assert "found 2 faults." in str(
        SECTION.blocks(measured._replace(run={"audit": {"findings": [DAMAGED, DAMAGED]}}))[0]
    )


def test_how_names_were_read_is_a_table_of_its_own(measured: Measured) -> None:
    names = ["step_1_ppl_9.pt -> step 1, read from `step_1`, ignored `ppl_9`"]
    (table,) = SECTION.blocks(measured._replace(run={"audit": {"findings": [], "names": names}}))
    cells = [part.partition("</td>")[0].partition(">")[2] for part in str(table).split("<td")[1:]]
    assert cells == ["step_1_ppl_9.pt", "step 1, read from `step_1`, ignored `ppl_9`"]


@pytest.mark.parametrize("run", [{}, {"audit": None}, {"audit": {"findings": []}}], ids=str)
def test_without_faults_nothing_is_said(run: dict[str, object], measured: Measured) -> None:
    assert SECTION.blocks(measured._replace(run=run)) == []
