"""`stagewise branch`: several fields are one change, several values a branch each; the cost first, then the delays."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stagewise.checkpoints.run_folder import RUN
from stagewise.cli.app import app

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["branch", *arguments])
    return result.exit_code, " ".join(result.output.split())


def test_the_cost_is_said_and_then_the_delays_beside_the_controls(small_folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(small_folder, run)
    change = ("--from", "2", "--set", "plan.learning_rate=0.01", "--set", "task.importance=1.2,1.9")
    status, printed = call(str(run), *change, "--dry-run")
    assert (status, printed) == (0, "5 runs are trained, from the state of step 0 on: 24 updates in all")
    assert not (run / "interventions").exists()
    status, printed = call(str(run), *change, "--quiet")
    assert status == 0, printed
    for name in ("plan.learning_rate=0.01, task.importance=1.2 from 2 (change)", "another batch order, order 1 from 2"):
        assert f"{name}" in printed
    assert "task.importance=1.9 from 1 (another time): the loss falls half-way to its end" in printed
    names = {path.parent.name for path in (run / "interventions").glob(f"*/{RUN}")}
    assert "plan.learning_rate=0.01-task.importance=1.9-1" in names
    assert "another-batch-order-2-order-1" in names


def test_orders_of_batches_are_joined_in_a_table(small_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(small_folder, tmp_path / "run")
    ramp = "task.importance=Ramp(1.7, 1.2, start=2, stop=5)"
    status, printed = call(str(run), "--from", "2", "--set", ramp, "--seeds", "2", "--no-controls", "--quiet")
    assert status == 0, printed
    assert "task.importance=Ramp(first=1.7, last=1.2, start=2, stop=5), order 1 from 2 (change)" in printed
    assert "transition change seeds never mean lo hi" in printed
    (path,) = Path(run).glob(f"interventions/task.importance=Ramp-*-2-order-1/{RUN}")
    assert set(json.loads(path.read_text())["recipe"]["schedules"]) == {"plan.draw", "task.importance"}


def test_a_field_that_is_not_there_or_does_not_change_is_refused(small_folder: Path) -> None:
    status, printed = call(str(small_folder), "--from", "2", "--set", "plan.learning_rat=1")
    assert (status, "plan.learning_rat: the recipe has no such field" in printed) == (2, True)
    status, printed = call(str(small_folder), "--from", "2", "--set", "architecture.config=1")
    assert (status, "architecture.config stays as it is in training" in printed) == (2, True)
    assert not (small_folder / "interventions").exists()
