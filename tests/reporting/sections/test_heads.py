"""The section on what each head attends to, and when heads changed."""

import dataclasses

import pandas as pd

from stagewise.findings.stages import Stages
from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured
from stagewise.reporting.sections.heads import SECTION

EVENT = {"layer": 1, "head": 2, "before": "diffuse", "after": "I(2)", "last_step_before": 40, "first_step_after": 60}


def test_a_change_happened_between_two_checkpoints(measured: Measured, stages: Stages) -> None:
    changed = dataclasses.replace(stages, events=pd.DataFrame([EVENT]))
    *_, table = SECTION.blocks(measured._replace(stages=changed))
    cells = [part.partition("</td>")[0].partition(">")[2] for part in str(table).split("<td")[1:]]
    assert cells == ["L1H2", "diffuse", "I(2)", "40 to 60"]


def test_without_changes_there_are_the_curves_alone(measured: Measured, table: pd.DataFrame) -> None:
    masses, indices, last = SECTION.blocks(measured._replace(stages=None))
    assert isinstance(last, str)
    assert "I(1): L0H0; I(2): L0H1" in last
    assert isinstance(masses, Plot)
    assert isinstance(indices, Plot)
    assert set(masses.panels) == {"L0H0", "L0H1"}
    assert len(masses.rows) == ((table["probe"] == "AttentionTo") & (table["quantity"] == "mass")).sum()
    assert set(indices.rows["quantity"]) == {"competition", "coverage"}


def test_it_is_missing_only_where_the_task_has_relations(measured: Measured, table: pd.DataFrame) -> None:
    assert SECTION.applies(measured)
    assert not SECTION.applies(measured._replace(table=table[table["relation"].isna()]))
