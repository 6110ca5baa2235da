"""Runs are continued and replayed with something changed: their costs, delays, verdicts and refusals."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stagewise.checkpoints.run_folder import RUN
from stagewise.cli._replays import clamps_of
from stagewise.cli.app import app
from stagewise.plan import ClampHead

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*arguments])
    return result.exit_code, " ".join(result.output.split())


def test_the_cost_is_said_and_then_the_delays(small_folder: Path, tmp_path: Path) -> None:
    run = str(shutil.copytree(small_folder, tmp_path / "run"))
    status, printed = call("intervene", run, "--hold-out", "L0H1", "--from", "3", "--dry-run")
    assert (status, printed) == (0, "3 runs are trained, from the state of step 2 on: 12 updates in all")
    assert not (tmp_path / "run" / "interventions").exists()
    status, printed = call("intervene", run, "--hold-out", "L0H1", "--from", "2", "--no-controls", "--quiet")
    assert status == 0, printed
    assert "L0H1 out from 2 (head): the loss falls half-way to its end" in printed


def test_a_head_is_given_a_relation(small_folder: Path, tmp_path: Path) -> None:
    run = str(shutil.copytree(small_folder, tmp_path / "run"))
    status, printed = call("intervene", run, "--attend", "L0H1=I(2)", "--from", "2", "--no-controls", "--quiet")
    assert status == 0, printed
    assert "L0H1 on I(2) from 2 (head): the loss falls half-way to its end" in printed


def test_heads_are_named_and_what_is_no_head_is_refused(small_folder: Path) -> None:
    assert clamps_of({"out": ["L1H10"], "weights": ["L0H0"]}, 5) == [ClampHead(1, 10, 5), ClampHead(0, 0, 5, "weights")]
    assert clamps_of({"relation": ["L0H1=value to key"]}, 5) == [ClampHead(0, 1, 5, "relation", "value to key")]
    for kind, name in (("out", "L0H1=I(1)"), ("relation", "L0H1")):
        with pytest.raises(ValueError, match="--attend alone names a relation"):
            clamps_of({kind: [name]}, 5)
    for heads in (["1"], ["L0H1x"], []):
        with pytest.raises(ValueError, match="as in"):
            clamps_of({"out": heads}, 5)
    status, printed = call("intervene", str(small_folder), "--hold-out", "L9H0", "--from", "2", "--quiet")
    assert (status, "there is no head L9H0: small has 1 layer of 2 heads" in printed) == (2, True)
    status, printed = call("intervene", str(small_folder), "--attend", "L0H0=I(7)", "--from", "2", "--quiet")
    assert (status, "no relation 'I(7)' to hold a head at; those that it can be are 'I(1)', 'I(2)'" in printed) == (
        2,
        True,
    )
    assert not (small_folder / "interventions").exists()


def test_a_clamp_after_the_end_is_refused_before_its_cost(small_folder: Path) -> None:
    status, printed = call("intervene", str(small_folder), "--hold-out", "L0H1", "--from", "60", "--dry-run")
    assert (status, "a clamp starts before step 6, the last one" in printed) == (2, True)


def test_checkpoints_trained_elsewhere_have_no_recipe_to_go_on_with(checkpoints: Path) -> None:
    result = CliRunner().invoke(app, ["intervene", str(checkpoints), "--hold-out", "L0H1", "--from", "0"])
    assert result.exit_code == 2
    assert "and intervene continues with a training by the recipe there" in " ".join(result.output.split())


def test_the_cost_is_said_and_then_the_delays_beside_the_controls(small_folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(small_folder, run)
    change = ("--from", "2", "--set", "plan.learning_rate=0.01", "--set", "task.importance=1.2,1.9")
    status, printed = call("branch", str(run), *change, "--dry-run")
    assert (status, printed) == (0, "5 runs are trained, from the state of step 0 on: 24 updates in all")
    assert not (run / "interventions").exists()
    status, printed = call("branch", str(run), *change, "--quiet")
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
    status, printed = call("branch", str(run), "--from", "2", "--set", ramp, "--seeds", "2", "--no-controls", "--quiet")
    assert status == 0, printed
    assert "task.importance=Ramp(first=1.7, last=1.2, start=2, stop=5), order 1 from 2 (change)" in printed
    assert "transition change seeds never mean lo hi" in printed
    (path,) = Path(run).glob(f"interventions/task.importance=Ramp-*-2-order-1/{RUN}")
    assert set(json.loads(path.read_text())["recipe"]["schedules"]) == {"plan.draw", "task.importance"}


def test_a_field_that_is_not_there_or_does_not_change_is_refused(small_folder: Path) -> None:
    status, printed = call("branch", str(small_folder), "--from", "2", "--set", "plan.learning_rat=1")
    assert (status, "plan.learning_rat: the recipe has no such field" in printed) == (2, True)
    status, printed = call("branch", str(small_folder), "--from", "2", "--set", "architecture.config=1")
    assert (status, "architecture.config stays as it is in training" in printed) == (2, True)
    assert not (small_folder / "interventions").exists()


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
