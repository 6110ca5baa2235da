"""`stagewise attribute`: the cost of the first replays, then a line a replay, and which class moved the transition."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stagewise.cli.app import app

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked")


def test_the_cost_is_said_and_then_what_each_replay_is_without(small_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(small_folder, tmp_path / "run")
    options = ("--transition", "loss 0.5", "--from", "2", "--leave-out", "of token", "--orders", "1")
    arguments = ["attribute", str(run), *options]
    dry = CliRunner().invoke(app, [*arguments, "--dry-run"])
    assert dry.exit_code == 0
    assert dry.output.startswith("at first, 3 runs are trained, from the state of step 2 on")
    assert not (run / "interventions").exists()
    result = CliRunner().invoke(app, [*arguments, "--quiet"])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[1].startswith("another batch order: the loss falls half-way to its end")
    assert lines[2].startswith("without predictions of token 0, of token 1")
    assert "left out alone" in lines[-1]
