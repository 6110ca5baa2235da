"""Runs are continued and replayed with something changed: their costs, delays, verdicts and refusals."""

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from stagewise.analysis import measure_run
from stagewise.checkpoints.run_folder import RUN, read_table
from stagewise.checkpoints.series import open_series
from stagewise.cli._replays import clamps_of
from stagewise.cli.app import app
from stagewise.measurement._provenance import recorded
from stagewise.plan import ClampHead
from stagewise.probe import AbstractProbe, Reading, View
from stagewise.probes import LogitLens, Loss, QKOffset
from stagewise.recipe import Recipe
from stagewise.replay.densifying import densify_steps
from stagewise.replay.windows import Window
from tests.fixtures.leftover import left_over

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*arguments])
    return result.exit_code, " ".join(result.output.split())


def test_the_cost_is_said_and_then_the_answer_and_the_delays(late_folder: Path, tmp_path: Path) -> None:
    run = str(shutil.copytree(late_folder, tmp_path / "run"))
    status, printed = call("cause", "intervene", run, "--hold", "L0H1", "--from", "17", "--dry-run")
    assert (status, printed) == (0, "3 runs are trained, from the state of step 8 on: 96 updates in all")
    assert not (tmp_path / "run" / "interventions").exists()
    held = ("--hold", "L0H1=lag", "--from", "16", "--no-controls", "--quiet")
    status, printed = call("cause", "intervene", run, *held)
    assert status == 0, printed
    assert "transition 1: Half-way at step" in printed
    assert "L0H1 on lag from 16 (head): transition 1 comes in the loss" in printed


def test_a_run_of_too_few_checkpoints_has_no_transition_to_delay(small_folder: Path, tmp_path: Path) -> None:
    run = str(shutil.copytree(small_folder, tmp_path / "run"))
    status, printed = call("cause", "intervene", run, "--hold", "L0H1", "--from", "2", "--no-controls", "--quiet")
    assert (status, "the answer names no transition of run after step 2 that its loss" in printed) == (2, True)
    assert "save more checkpoints (`stagewise densify`)" in printed


def test_heads_are_named_and_what_is_no_head_is_refused(small_folder: Path) -> None:
    assert clamps_of(["L1H10", "L0H0=weights"], 5) == [ClampHead(1, 10, 5), ClampHead(0, 0, 5, "weights")]
    assert clamps_of(["L0H1=value to key"], 5) == [ClampHead(0, 1, 5, "relation", "value to key")]
    for heads in (["1"], ["L0H1x"], ["L0H1="], []):
        with pytest.raises(ValueError, match="--hold"):
            clamps_of(heads, 5)
    status, printed = call("cause", "intervene", str(small_folder), "--hold", "L9H0", "--from", "2", "--quiet")
    assert (status, "there is no head L9H0: small has 1 layer of 2 heads" in printed) == (2, True)
    status, printed = call("cause", "intervene", str(small_folder), "--hold", "L0H0=I(7)", "--from", "2", "--quiet")
    assert (status, "no relation 'I(7)' to hold a head at; those that it can be are 'I(1)', 'I(2)'" in printed) == (
        2,
        True,
    )
    assert not (small_folder / "interventions").exists()


def test_a_clamp_after_the_end_is_refused_before_its_cost(small_folder: Path) -> None:
    status, printed = call("cause", "intervene", str(small_folder), "--hold", "L0H1", "--from", "60", "--dry-run")
    assert (status, "a clamp starts before step 6, the last one" in printed) == (2, True)


def test_checkpoints_trained_elsewhere_have_no_recipe_to_go_on_with(checkpoints: Path) -> None:
    result = CliRunner().invoke(app, ["cause", "intervene", str(checkpoints), "--hold", "L0H1", "--from", "0"])
    assert result.exit_code == 2
    assert "and intervene continues with a training by the recipe there" in " ".join(result.output.split())


def test_the_cost_is_said_and_then_the_delays_beside_the_controls(late_folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(late_folder, run)
    change = ("--from", "16", "--set", "plan.learning_rate=0.2", "--set", "task.wrong=0.1,0.2")
    status, printed = call("cause", "branch", str(run), *change, "--dry-run")
    assert (status, printed) == (0, "5 runs are trained, from the state of step 8 on: 160 updates in all")
    assert not (run / "interventions").exists()
    status, printed = call("cause", "branch", str(run), *change, "--quiet")
    assert status == 0, printed
    for name in ("plan.learning_rate=0.2, task.wrong=0.1 from 16 (change)", "another batch order, order 1 from 16"):
        assert f"{name}" in printed
    assert "task.wrong=0.2 from 8 (another time): transition 1 comes in the loss" in printed
    names = {path.parent.name for path in (run / "interventions").glob(f"*/{RUN}")}
    assert "plan.learning_rate=0.2-task.wrong=0.2-8" in names
    assert "another-batch-order-16-order-1" in names


def test_orders_of_batches_are_joined_in_a_table(late_folder: Path, tmp_path: Path) -> None:
    run = shutil.copytree(late_folder, tmp_path / "run")
    ramp = "task.wrong=Ramp(0, 0.2, start=16, stop=25)"
    status, printed = call(
        "cause", "branch", str(run), "--from", "16", "--set", ramp, "--seeds", "2", "--no-controls", "--quiet"
    )
    assert status == 0, printed
    assert "task.wrong=Ramp(first=0, last=0.2, start=16, stop=25), order 1 from 16 (change)" in printed
    assert "transition change seeds never mean lo hi" in printed
    (path,) = Path(run).glob(f"interventions/task.wrong=Ramp-*-16-order-1/{RUN}")
    assert set(json.loads(path.read_text())["recipe"]["schedules"]) == {"plan.draw", "task.wrong"}


def test_a_field_that_is_not_there_or_does_not_change_is_refused(small_folder: Path) -> None:
    status, printed = call("cause", "branch", str(small_folder), "--from", "2", "--set", "plan.learning_rat=1")
    assert (status, "plan.learning_rat: the recipe has no such field" in printed) == (2, True)
    status, printed = call("cause", "branch", str(small_folder), "--from", "2", "--set", "architecture.config=1")
    assert (status, "architecture.config stays as it is in training" in printed) == (2, True)
    assert not (small_folder / "interventions").exists()


def test_the_cost_is_said_and_then_a_verdict_a_head_and_a_sentence_a_transition(
    late_folder: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(late_folder, tmp_path / "run")
    arguments = ["cause", "certify", str(run), "--from", "16", "--quiet"]
    dry = CliRunner().invoke(app, [*arguments, "--dry-run"])
    assert dry.exit_code == 0, dry.output
    assert dry.output.startswith("7 runs are trained, from the state of step 8 on: 224 updates in all")
    assert not (run / "tables" / "certificate.parquet").exists()
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[1].split() == ["event", "transition", "step", "subject", "verdict", "delay"]
    assert [line.split()[4] for line in lines[2:5]] == ["L0H0", "L0H1", "L0H2"]
    assert any(line.startswith("Transition 1 comes in the loss at step") for line in lines)
    assert (run / "tables" / "certificate.parquet").exists()


@pytest.fixture(scope="module")
def measured(small_folder: Path, small_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(shutil.copytree(small_folder, tmp_path_factory.mktemp("measured") / "run"))
    measure_run(small_recipe, folder, probes=[Loss()], progress=False)
    return folder


@pytest.fixture
def run(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "run"))


def call_of_densify(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["densify", *arguments])
    return result.exit_code, result.output


def test_the_cost_comes_first_and_nothing_is_done_on_a_dry_run(run: Path) -> None:
    status, printed = call_of_densify(str(run), "--between", "2", "6", "--dry-run")
    assert (status, "4 updates are replayed, 67 % of the run's; 2 checkpoints are added" in printed) == (0, True)
    assert open_series(run).steps == (0, 2, 4, 6)


def test_new_checkpoints_are_measured_with_the_others(run: Path) -> None:
    status, printed = call_of_densify(str(run), "--between", "3", "6", "--every", "2", "--only", "Loss", "--quiet")
    assert status == 0, printed
    assert open_series(run).steps == (0, 2, 3, 4, 5, 6)
    assert sorted(read_table(run)["step"].unique()) == [0, 2, 3, 4, 5, 6]
    assert "report: " in printed


@pytest.mark.slow
def test_what_the_table_holds_is_measured_again_with_its_parameters(run: Path, small_recipe: Recipe) -> None:
    measure_run(small_recipe, run, probes=[Loss(), QKOffset(offset=2)], extra_probes=[LogitLens()], progress=False)
    before = read_table(run)
    status, printed = call_of_densify(str(run), "--between", "3", "4", "--quiet")
    assert status == 0, printed
    after = read_table(run)
    for name in ("Loss", "QKOffset", "LogitLens"):
        assert after[after["probe"] == name]["step"].unique().tolist() == [0, 2, 3, 4, 6]
    pd.testing.assert_frame_equal(after[after["step"] != 3].reset_index(drop=True), before)


@pytest.mark.slow
def test_a_table_of_so_many_sequences_stays_one_and_others_are_asked_for(run: Path, small_recipe: Recipe) -> None:
    measure_run(small_recipe, run, probes=[Loss()], sequences=11, progress=False)
    status, printed = call_of_densify(str(run), "--between", "3", "4", "--quiet")
    assert status == 0, printed
    assert (recorded(run)["sequences"], set(read_table(run)["n"])) == (11, {11})
    status, printed = call_of_densify(str(run), "--between", "5", "6", "--quiet", "--sequences", "13")
    assert (status, "all 6 checkpoints are measured on 13 sequences, the table has 11" in printed) == (0, True)
    assert (recorded(run)["sequences"], set(read_table(run)["n"])) == (13, {13})


@pytest.mark.slow
def test_a_table_in_bfloat16_stays_one(run: Path, small_recipe: Recipe) -> None:
    measure_run(small_recipe, run, probes=[Loss()], dtype="bfloat16", progress=False)
    before = read_table(run)
    status, printed = call_of_densify(str(run), "--between", "3", "4", "--quiet")
    after = read_table(run)
    assert (status, recorded(run)["dtype"]) == (0, "bfloat16"), printed
    pd.testing.assert_frame_equal(after[after["step"] != 3].reset_index(drop=True), before)


@dataclasses.dataclass(frozen=True)
class Mine(AbstractProbe):
    """A probe of one's own."""

    number: float = 1.0

    def read(self, view: View) -> list[Reading]:
        return [Reading("batch", torch.full((len(view.batch),), self.number), "number")]


def test_a_probe_of_ones_own_is_asked_for_before_anything_is_replayed(run: Path, small_recipe: Recipe) -> None:
    measure_run(small_recipe, run, probes=[Loss(), Mine()], progress=False)
    status, printed = call_of_densify(str(run), "--between", "3", "4", "--quiet")
    assert (status, "give --probe tests.cli.test_replays:Mine" in " ".join(printed.split())) == (2, True)
    assert open_series(run).steps == (0, 2, 4, 6)
    status, printed = call_of_densify(
        str(run), "--between", "3", "4", "--quiet", "--probe", "tests.cli.test_replays:Mine"
    )
    assert status == 0, printed
    assert read_table(run).query("step == 3")["probe"].unique().tolist() == ["Loss", "Mine"]


@pytest.mark.slow
def test_only_and_without_choose_of_the_table_and_the_default_probes(run: Path, small_recipe: Recipe) -> None:
    measure_run(small_recipe, run, probes=[Loss(), Mine()], progress=False)
    status, printed = call_of_densify(str(run), "--between", "3", "4", "--quiet", "--without", "Mine")
    assert (status, list(read_table(run)["probe"].unique())) == (0, ["Loss"])
    status, printed = call_of_densify(
        str(run), "--between", "5", "6", "--quiet", "--only", "Loss", "--only", "Accuracy"
    )
    assert (status, list(read_table(run)["probe"].unique())) == (0, ["Loss", "Accuracy"])
    status, printed = call_of_densify(str(run), "--between", "1", "2", "--quiet", "--only", "Mine")
    assert (status, "Mine is none of the default probes here" in " ".join(printed.split())) == (2, True)


def test_the_boundaries_of_the_stages_are_proposed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stagewise.replay.windows.windows", lambda stages: [Window(2, 4, 2)])
    status, printed = call_of_densify(str(run), "--dry-run")
    assert (status, "stage 2 begins between 2 and 4" in printed) == (0, True)


def test_a_run_without_boundaries_has_nothing_to_densify(run: Path) -> None:
    status, printed = call_of_densify(str(run))
    assert (status, "nothing to do, or give --between" in printed.replace("\n", " ")) == (0, True)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--between", "5", "3"], "from 0 to 6 and the first below the second, got (5, 3)"),
        (["--between", "30", "40"], "from 0 to 6 and the first below the second, got (30, 40)"),
        (["--between", "2", "6", "--every", "0"], "got every=0"),
        (["--between", "2", "6", "--budget", "0"], "at least one new checkpoint, got 0"),
    ],
)
def test_what_would_densify_nothing_is_refused(wrong: list[str], message: str, run: Path) -> None:
    result = CliRunner().invoke(app, ["densify", str(run), *wrong])
    assert (result.exit_code, message in " ".join(result.output.split())) == (2, True)


def test_steps_that_are_saved_already_are_nothing_to_do(run: Path) -> None:
    before = (run / "tables" / "measurements.parquet").stat().st_mtime_ns
    status, printed = call_of_densify(str(run), "--between", "2", "5", "--every", "2")
    assert (status, "all these steps are saved already: nothing to do" in " ".join(printed.split())) == (0, True)
    assert (run / "tables" / "measurements.parquet").stat().st_mtime_ns == before


def test_a_densification_that_was_killed_before_it_measured_is_finished_by_the_same_command(run: Path) -> None:
    densify_steps(run, [3], progress=False)
    for told in ("stages", "report", "audit"):
        _, printed = call(told, str(run))
        assert "1 saved checkpoint is not in the table, step 3 first: `stagewise measure` adds it" in printed, told
    assert "1 saved checkpoint is not in the table" in (run / "report.html").read_text()
    command = (str(run), "--between", "2", "5", "--only", "Loss", "--quiet", "--every", "1")
    status, printed = call_of_densify(*command)
    assert (status, "1 of them are measured" in " ".join(printed.split())) == (0, True)
    assert 3 in set(read_table(run)["step"])
    status, printed = call_of_densify(*command)
    assert (status, "nothing to do" in printed.replace("\n", " "), "report:" in printed) == (0, True, False)


def test_a_densification_that_was_killed_before_it_reported_is_finished_by_the_same_command(run: Path) -> None:
    command = (str(run), "--between", "2", "5", "--only", "Loss", "--quiet", "--every", "1")
    call_of_densify(*command)
    finished = (run / "report.html").read_text()
    (run / "report.html").write_text("that of before")
    os.utime(run / "report.html", ns=(0, 0))
    assert call_of_densify(*command)[0] == 0
    assert (run / "report.html").read_text() == finished
    leftover = left_over(run / "report.html")
    assert call_of_densify(*command)[0] == 0
    assert not leftover.exists()


def test_a_budget_is_of_new_checkpoints_and_every_step_is_saved_before_there_is_nothing_to_do(run: Path) -> None:
    measured = ("--between", "1", "6", "--only", "Loss", "--quiet")
    for budget, steps in (("1", (0, 1, 2, 4, 6)), ("2", (0, 1, 2, 3, 4, 5, 6))):
        status, printed = call_of_densify(str(run), *measured, "--budget", budget)
        assert (status, f"{budget} checkpoints are added" in printed) == (0, True)
        assert open_series(run).steps == steps
    status, printed = call_of_densify(str(run), *measured, "--budget", "1")
    assert (status, "nothing to do, or give --between" in " ".join(printed.split())) == (0, True)


def test_checkpoints_trained_elsewhere_have_no_recipe_to_replay(checkpoints: Path) -> None:
    status, printed = call_of_densify(str(checkpoints), "--between", "0", "2")
    assert status == 2
    assert "and densify replays a training by the recipe there. Of checkpoints" in " ".join(printed.split())
