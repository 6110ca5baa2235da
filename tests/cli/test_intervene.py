"""`stagewise intervene`: heads by name, the cost first, the delays in words."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stagewise.cli.app import app
from stagewise.cli.intervene import clamps_of
from stagewise.plan import ClampHead

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["intervene", *arguments])
    return result.exit_code, " ".join(result.output.split())


def test_the_cost_is_said_and_then_the_delays(small_folder: Path, tmp_path: Path) -> None:
    run = str(shutil.copytree(small_folder, tmp_path / "run"))
    status, printed = call(run, "--hold-out", "L0H1", "--from", "2", "--dry-run")
    assert (status, printed) == (0, "3 runs are trained from step 2 on, 12 updates in all")
    assert not (tmp_path / "run" / "interventions").exists()
    status, printed = call(run, "--hold-out", "L0H1", "--from", "2", "--no-controls", "--quiet")
    assert status == 0, printed
    assert "L0H1 out from 2 (head): the loss falls half-way to its end" in printed


def test_heads_are_named_and_what_is_no_head_is_refused(small_folder: Path) -> None:
    assert clamps_of({"out": ["L1H10"], "weights": ["L0H0"]}, 5) == [ClampHead(1, 10, 5), ClampHead(0, 0, 5, "weights")]
    for heads in (["1"], ["L0H1x"], []):
        with pytest.raises(ValueError, match="as in"):
            clamps_of({"out": heads}, 5)
    status, printed = call(str(small_folder), "--hold-out", "L9H0", "--from", "2", "--quiet")
    assert (status, "there is no head L9H0: small has 1 layers of 2 heads" in printed) == (2, True)
    assert not (small_folder / "interventions").exists()
