"""The sections on single heads: on what each one attends to, when it changed, and its scores."""

import dataclasses
import re
from collections.abc import Callable

import pandas as pd

from stagewise.findings import Stages
from stagewise.findings.lineage import find_lineage
from stagewise.reporting._figure import Plot
from stagewise.reporting._html import wording
from stagewise.reporting._measured import Measured
from stagewise.reporting.sections.heads import ABLATION, HEADS, LINEAGE
from tests.fixtures.profiles import profile_rows

EVENT = {"layer": 1, "head": 2, "before": "diffuse", "after": "I(2)", "last_step_before": 40, "first_step_after": 60}


def test_a_change_happened_between_two_checkpoints(measured: Measured, stages: Stages) -> None:
    changed = dataclasses.replace(stages, events=pd.DataFrame([EVENT]))
    *_, table = HEADS.blocks(measured._replace(stages=changed))
    cells = [part.partition("</td>")[0].partition(">")[2] for part in str(table).split("<td")[1:]]
    assert cells == ["L1H2", "diffuse", "I(2)", "40 to 60"]


def test_without_changes_there_are_the_curves_alone(measured: Measured, table: pd.DataFrame) -> None:
    masses, indices, last = HEADS.blocks(measured._replace(stages=None))
    assert isinstance(last, str)
    assert "I(1): L0H0; I(2): L0H1" in last
    assert isinstance(masses, Plot)
    assert isinstance(indices, Plot)
    assert set(masses.panels) == {"L0H0", "L0H1"}
    assert len(masses.rows) == ((table["probe"] == "AttentionTo") & (table["quantity"] == "mass")).sum()
    assert set(indices.rows["quantity"]) == {"competition", "coverage"}


def test_it_is_missing_only_where_the_task_has_relations(measured: Measured, table: pd.DataFrame) -> None:
    assert HEADS.applies_to(measured)
    assert not HEADS.applies_to(measured._replace(table=table[table["relation"].isna()]))


def test_every_kind_of_ablation_has_a_figure_of_its_own_rows(
    table: pd.DataFrame, bare: Callable[..., Measured]
) -> None:
    zero = table[table["probe"] == "HeadAblation"]
    other = zero.assign(kind="<mean>", value=zero["value"] + 1)
    plots = [block for block in ABLATION.blocks(bare(pd.concat([zero, other]))) if isinstance(block, Plot)]
    assert [plot.name for plot in plots] == ["ablation-zero", "ablation-<mean>"]
    assert [plot.rows["value"].tolist() for plot in plots] == [zero["value"].tolist(), other["value"].tolist()]
    assert "(zero ablation)" in plots[0].caption
    assert "(&lt;mean&gt; ablation)" in plots[1].caption


def test_a_control_is_drawn_beside_what_it_controls(measured: Measured) -> None:
    (plot,) = ABLATION.blocks(measured)
    assert isinstance(plot, Plot)
    titles = [ax.get_title(loc="left") for ax in plot.panels[""].axes]  # type: ignore[union-attr]
    assert [title for title in titles if title] == ["zero ablation of the head", "zero ablation of a random head"]


def test_without_the_kl_there_is_no_figure(table: pd.DataFrame, bare: Callable[..., Measured]) -> None:
    assert ABLATION.blocks(bare(table[table["probe"] == "HeadAblation"].assign(quantity="other"))) == []


def test_events_stand_below_the_kinds_and_who_is_of_them(measured: Measured) -> None:
    lineage = find_lineage(profile_rows([*[[None, None]] * 5, *[[None, 4]] * 5]))
    _, kinds, table = map(str, LINEAGE.blocks(measured._replace(lineage=lineage, stages=None)))
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", kinds)
    steps = [str(step) for step in (lineage.kinds["first_step"].iloc[1], lineage.kinds["last_step"].iloc[1])]
    assert cells[5:] == ["2", "offset 4", *steps, "L0H1"]
    assert "L0H1 leaves the common pattern: kind 2 (offset 4) is born" in table


def test_a_run_in_which_nothing_happened_says_so(measured: Measured) -> None:
    lineage = find_lineage(profile_rows([[None, 2]] * 5))
    assert LINEAGE.blocks(measured._replace(lineage=lineage, stages=None))[2] == wording("kinds", "none")


def test_a_run_without_patterns_has_no_such_section(measured: Measured) -> None:
    assert LINEAGE.blocks(measured) == []
