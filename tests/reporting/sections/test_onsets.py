"""The section of onsets, and the command that prints them."""

import json
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from stagewise.checkpoints.run_folder import TABLE
from stagewise.cli.app import app
from stagewise.findings.stages import find_stages
from stagewise.reporting._measured import Measured
from stagewise.reporting.sections.onsets import _onsets_section


def test_the_section_says_what_began_and_why_others_did_not(one_onset: pd.DataFrame) -> None:
    measured = Measured({}, None, one_onset, find_stages(one_onset), {}, 0)
    listed, why, tested, plot = _onsets_section(measured)
    assert "L0H0 becomes a previous-token head" in str(listed)
    assert "2 scores were examined, 1 of them without onset: 1 moved too little, or by noise alone." in str(why)
    assert "at least 0.1 (where neither a unit nor bounds are declared: 0.01 of the score's range)" in str(tested)
    assert isinstance(plot.panels[""], Figure)  # type: ignore[union-attr]
    assert len(plot.rows) == len(one_onset)  # type: ignore[union-attr]


@pytest.mark.slow
def test_the_command_prints_stages_and_onsets(one_onset: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / TABLE).parent.mkdir(parents=True)
    one_onset.to_parquet(tmp_path / TABLE)
    words = CliRunner().invoke(app, ["stages", str(tmp_path)])
    assert words.exit_code == 0, words.output
    assert "L0H0 becomes a previous-token head (0.0" in words.output
    data = json.loads(CliRunner().invoke(app, ["stages", str(tmp_path), "--json"]).output)
    assert [row["stage"] for row in data["table"]] == [1, 2]
    assert [row["onset"] for row in data["onsets"]] == [True, False]
