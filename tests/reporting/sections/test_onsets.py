"""The section of onsets, and the command that prints them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from stagewise.checkpoints.run_folder import TABLE
from stagewise.cli.app import app
from stagewise.detection.stages import find_stages
from stagewise.reporting.measured import Measured
from stagewise.reporting.sections.onsets import onsets_section

STEPS = np.unique(np.geomspace(1, 1001, 40).astype(int)) - 1


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Two heads: one begins to look back at step 100, the other one never does."""
    generator = np.random.default_rng(0)
    rise = 1 / (1 + np.exp(-(np.log1p(STEPS) - np.log(101)) / 0.1))
    frames = [
        pd.DataFrame({"step": STEPS, "head": head, "value": 0.05 + size * rise + 0.01 * noise})
        for head, (size, noise) in enumerate(zip((0.8, 0.0), generator.standard_normal((2, len(STEPS))), strict=True))
    ]
    rows = pd.concat(frames, ignore_index=True).astype({"head": "Int64"})
    return rows.assign(
        run="run", probe="AttentionTo", quantity="along", relation="previous token", layer=pd.array([0] * len(rows))
    )


def test_the_section_says_what_began_and_why_others_did_not(table: pd.DataFrame) -> None:
    measured = Measured({}, None, table, find_stages(table), {}, 0)
    listed, why, _, plot = onsets_section(measured)
    assert "L0H0 becomes a previous-token head" in str(listed)
    assert "2 scores were followed, 1 of them without onset: 1 moves by less than 0.1 or its noise." in str(why)
    assert isinstance(plot.panels[""], Figure)  # type: ignore[union-attr]
    assert len(plot.rows) == len(table)  # type: ignore[union-attr]


def test_the_command_prints_stages_and_onsets(table: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / TABLE).parent.mkdir(parents=True)
    table.to_parquet(tmp_path / TABLE)
    words = CliRunner().invoke(app, ["stages", str(tmp_path)])
    assert words.exit_code == 0, words.output
    assert "L0H0 becomes a previous-token head (0.0" in words.output
    data = json.loads(CliRunner().invoke(app, ["stages", str(tmp_path), "--json"]).output)
    assert [row["stage"] for row in data["table"]] == [1, 2]
    assert [row["onset"] for row in data["onsets"]] == [True, False]
