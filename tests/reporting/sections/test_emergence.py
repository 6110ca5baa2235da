"""The report's section on emergence, from curves made by hand."""

import pandas as pd

from stagewise.reporting._measured import Measured
from stagewise.reporting.sections.emergence import SECTION, _emergence_section


def measured(table: pd.DataFrame) -> Measured:
    return Measured({}, None, table, None, {}, 0)


def test_the_section_says_when_and_shows_the_curves(emerging: pd.DataFrame) -> None:
    words, rows, plot = _emergence_section(measured(emerging))
    assert "the accuracy is half-way between steps 500 and 550" in str(words)
    assert "accuracy passes 0.50" in str(rows)
    assert len(plot.rows) == len(emerging)  # type: ignore[union-attr]


def test_without_its_probes_there_is_no_section(emerging: pd.DataFrame) -> None:
    assert SECTION.blocks(measured(emerging[emerging["probe"] == "Accuracy"])) == []
    assert SECTION.blocks(measured(emerging))


def test_a_run_in_which_nothing_emerged_says_so(emerging: pd.DataFrame) -> None:
    (words, _) = _emergence_section(measured(emerging.assign(value=0.1)))
    assert str(words).startswith("<p>Nothing emerged")
