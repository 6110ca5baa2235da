"""The section on a behaviour: its curve before its heads, and a line for each part."""

import pandas as pd

from stagewise.reporting._figure import Plot
from stagewise.reporting._measured import Measured
from stagewise.reporting.sections.behaviour import BEHAVIOUR
from stagewise.table import tidy
from tests.findings.test_behaviour import STEPS, rises, table


def test_the_curve_stands_before_the_heads() -> None:
    rows = table(rises(400, 3.0))
    chance = rows[rows["quantity"] == "difference"].assign(quantity="baseline_difference", value=0.0)
    whole = tidy([rows, chance.assign(control="chance")])
    whole.attrs = rows.attrs
    said, *figures = BEHAVIOUR.blocks(Measured({}, whole))
    assert "L0H0, a name mover: 2.00 nats, directly 1.90" in str(said)
    names = [figure.name for figure in figures if isinstance(figure, Plot)]
    assert names == ["behaviour-1", "behaviour-2", "behaviour-heads-1", "behaviour-heads-2"]


def test_other_tables_have_no_such_section() -> None:
    rows = table(rises(400, 3.0))
    assert len(STEPS)
    assert BEHAVIOUR.blocks(Measured({}, pd.DataFrame(rows[rows["probe"] == "AttentionTo"]))) == []
