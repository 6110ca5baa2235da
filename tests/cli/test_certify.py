"""`stagewise certify`: the cost first, then a line a transition and head, and a sentence a transition."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stagewise.cli.app import app

pytestmark = pytest.mark.usefixtures("few_sequences", "unchecked")


def test_the_cost_is_said_and_then_a_verdict_a_head_and_a_sentence_a_transition(
    small_folder: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(small_folder, tmp_path / "run")
    arguments = ["certify", str(run), "--from", "2", "--quiet"]
    dry = CliRunner().invoke(app, [*arguments, "--dry-run"])
    assert dry.exit_code == 0, dry.output
    assert dry.output.startswith("5 runs are trained, from the state of step 2 on: 20 updates in all, about ")
    assert dry.output.endswith("seconds of training\n")
    assert not (run / "tables" / "certificate.parquet").exists()
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[1].split() == ["transition", "step", "subject", "verdict", "delay"]
    assert [line.split()[3] for line in lines[2:4]] == ["L0H0", "L0H1"]
    assert any(line.startswith("The loss falls half-way to its end at step") for line in lines)
    assert (run / "tables" / "certificate.parquet").exists()
