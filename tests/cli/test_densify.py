"""`stagewise densify`: says the cost, saves finer checkpoints, measures them and reports anew."""

import dataclasses
import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from stagewise.analysis import measure_run
from stagewise.checkpoints.run_folder import read_table
from stagewise.checkpoints.series import open_series
from stagewise.cli.app import app
from stagewise.findings._windows import Window
from stagewise.findings.stages import Stages
from stagewise.measurement._recorded import recorded_dtype, recorded_sequences
from stagewise.probe import AbstractProbe, Reading, View
from stagewise.probes import LogitLens, Loss, QKOffset
from stagewise.recipe import Recipe

pytestmark = pytest.mark.usefixtures("few_sequences", "undrawn", "unchecked")


@pytest.fixture
def run(small_folder: Path, small_recipe: Recipe, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(small_folder, tmp_path / "run"))
    measure_run(small_recipe, folder, probes=[Loss()], progress=False)
    return folder


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["densify", *arguments])
    return result.exit_code, result.output


def test_the_cost_comes_first_and_nothing_is_done_on_a_dry_run(run: Path) -> None:
    status, printed = call(str(run), "--between", "2", "6", "--dry-run")
    assert (status, "4 updates are replayed, 67 % of the run's; 2 checkpoints are added" in printed) == (0, True)
    assert open_series(run).steps == (0, 2, 4, 6)


def test_new_checkpoints_are_measured_with_the_others(run: Path) -> None:
    status, printed = call(str(run), "--between", "3", "6", "--every", "2", "--only", "Loss", "--quiet")
    assert status == 0, printed
    assert open_series(run).steps == (0, 2, 3, 4, 5, 6)
    assert sorted(read_table(run)["step"].unique()) == [0, 2, 3, 4, 5, 6]
    assert "report: " in printed


@pytest.mark.slow
def test_what_the_table_holds_is_measured_again_with_its_parameters(run: Path, small_recipe: Recipe) -> None:
    measure_run(small_recipe, run, probes=[Loss(), QKOffset(offset=2)], extra_probes=[LogitLens()], progress=False)
    before = read_table(run)
    status, printed = call(str(run), "--between", "3", "4", "--quiet")
    assert status == 0, printed
    after = read_table(run)
    for name in ("Loss", "QKOffset", "LogitLens"):
        assert after[after["probe"] == name]["step"].unique().tolist() == [0, 2, 3, 4, 6]
    pd.testing.assert_frame_equal(after[after["step"] != 3].reset_index(drop=True), before)


@pytest.mark.slow
def test_a_table_of_so_many_sequences_stays_one_and_others_are_asked_for(run: Path, small_recipe: Recipe) -> None:
    measure_run(small_recipe, run, probes=[Loss()], sequences=11, progress=False)
    status, printed = call(str(run), "--between", "3", "4", "--quiet")
    assert status == 0, printed
    assert (recorded_sequences(run), set(read_table(run)["n"])) == (11, {11})
    status, printed = call(str(run), "--between", "5", "6", "--quiet", "--sequences", "13")
    assert (status, "all 6 checkpoints are measured on 13 sequences, the table has 11" in printed) == (0, True)
    assert (recorded_sequences(run), set(read_table(run)["n"])) == (13, {13})


@pytest.mark.slow
def test_a_table_in_bfloat16_stays_one(run: Path, small_recipe: Recipe) -> None:
    measure_run(small_recipe, run, probes=[Loss()], dtype="bfloat16", progress=False)
    before = read_table(run)
    status, printed = call(str(run), "--between", "3", "4", "--quiet")
    after = read_table(run)
    assert (status, recorded_dtype(run)) == (0, "bfloat16"), printed
    pd.testing.assert_frame_equal(after[after["step"] != 3].reset_index(drop=True), before)


@dataclasses.dataclass(frozen=True)
class Mine(AbstractProbe):
    """A probe of one's own."""

    number: float = 1.0

    def read(self, view: View) -> list[Reading]:
        return [Reading("batch", torch.full((len(view.batch),), self.number), "number")]


def test_a_probe_of_ones_own_is_asked_for_before_anything_is_replayed(run: Path, small_recipe: Recipe) -> None:
    measure_run(small_recipe, run, probes=[Loss(), Mine()], progress=False)
    status, printed = call(str(run), "--between", "3", "4", "--quiet")
    assert (status, "give --probe tests.cli.test_densify:Mine" in " ".join(printed.split())) == (2, True)
    assert open_series(run).steps == (0, 2, 4, 6)
    status, printed = call(str(run), "--between", "3", "4", "--quiet", "--probe", "tests.cli.test_densify:Mine")
    assert status == 0, printed
    assert read_table(run).query("step == 3")["probe"].unique().tolist() == ["Loss", "Mine"]


@pytest.mark.slow
def test_only_and_without_choose_of_the_table_and_the_default_probes(run: Path, small_recipe: Recipe) -> None:
    measure_run(small_recipe, run, probes=[Loss(), Mine()], progress=False)
    status, printed = call(str(run), "--between", "3", "4", "--quiet", "--without", "Mine")
    assert (status, list(read_table(run)["probe"].unique())) == (0, ["Loss"])
    status, printed = call(str(run), "--between", "5", "6", "--quiet", "--only", "Loss", "--only", "Accuracy")
    assert (status, list(read_table(run)["probe"].unique())) == (0, ["Loss", "Accuracy"])
    status, printed = call(str(run), "--between", "1", "2", "--quiet", "--only", "Mine")
    assert (status, "Mine is none of the default probes here" in " ".join(printed.split())) == (2, True)


def test_the_boundaries_of_the_stages_are_proposed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stages, "windows", property(lambda stages: [Window(2, 4, 2)]))
    status, printed = call(str(run), "--dry-run")
    assert (status, "stage 2 begins between 2 and 4" in printed) == (0, True)


def test_a_run_without_boundaries_has_nothing_to_densify(run: Path) -> None:
    status, printed = call(str(run))
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
    status, printed = call(str(run), "--between", "2", "5", "--every", "2")
    assert (status, "all these steps are saved already: nothing to do" in " ".join(printed.split())) == (0, True)
    assert (run / "tables" / "measurements.parquet").stat().st_mtime_ns == before


def test_a_budget_is_of_new_checkpoints_and_every_step_is_saved_before_there_is_nothing_to_do(run: Path) -> None:
    measured = ("--between", "1", "6", "--only", "Loss", "--quiet")
    for budget, steps in (("1", (0, 1, 2, 4, 6)), ("2", (0, 1, 2, 3, 4, 5, 6))):
        status, printed = call(str(run), *measured, "--budget", budget)
        assert (status, f"{budget} checkpoints are added" in printed) == (0, True)
        assert open_series(run).steps == steps
    status, printed = call(str(run), *measured, "--budget", "1")
    assert (status, "nothing to do, or give --between" in " ".join(printed.split())) == (0, True)


def test_checkpoints_trained_elsewhere_have_no_recipe_to_replay(checkpoints: Path) -> None:
    status, printed = call(str(checkpoints), "--between", "0", "2")
    assert status == 2
    assert "and densify replays a training by the recipe there. Of checkpoints" in " ".join(printed.split())
