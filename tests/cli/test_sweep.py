"""`stagewise series sweep`: a run folder a setting, a table of all, nothing done twice."""

import concurrent.futures
import glob
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from stagewise.cli.app import app
from stagewise.recipe import Recipe

pytestmark = pytest.mark.usefixtures("unchecked")

TINY = ["--steps", "4", "--set", "plan.batch_size=8", "--set", "plan.save=[1,2,3]", "--set", "task.n_sequences=32"]
SMALL = ["--set", "task.spans=[1,1]", "--set", "task.d_vocab=4", "--heads", "1", "--no-restricted"]
QUIET = ["--quiet", "--workers", "1"]


def sweep(folder: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(
        app, ["series", "sweep", "markov", "--folder", str(folder), *TINY, *SMALL, *QUIET, *arguments]
    )
    return result.exit_code, result.output


@pytest.mark.slow
@pytest.mark.usefixtures("no_workers", "undrawn")
def test_every_combination_has_its_run_and_its_row_and_is_not_run_again(tmp_path: Path) -> None:
    axes = ["--set", "plan.seeds.init=0,1", "--memory", "1GB"]
    code, printed = sweep(tmp_path, *axes)
    assert code == 0, printed
    table = pd.read_csv(tmp_path / "summary.csv")
    assert table["plan.seeds.init"].tolist() == [0, 1]
    assert {"stages", "final loss", "boundaries", "folder"} <= set(table.columns)
    assert not {"recipe", "restricted", "memory"} & set(table.columns)
    assert table["final loss"].nunique() == 2
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    assert len({path.parent for path in written}) == 2
    assert all((Path(folder) / "report.html").exists() for folder in table["folder"])
    assert sorted(glob.glob(f"{tmp_path}/*/")) == [f"{folder}/" for folder in table["folder"]]
    assert sweep(tmp_path, *axes)[0] == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")} == written


def squared(recipe: Recipe, folder: str, restricted: object) -> dict[str, int]:
    if recipe.plan.seeds.init == 1:
        raise ZeroDivisionError("too hot")
    return {"stages": recipe.plan.seeds.init**2}


def test_runs_that_finished_are_printed_and_those_that_failed_named_by_their_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stagewise.cli._sweep.run_one", squared)
    monkeypatch.setattr("stagewise.sweeping.worker_pool", concurrent.futures.ThreadPoolExecutor)
    code, printed = sweep(tmp_path, "--set", "plan.seeds.init=0,1,3")
    (failed,) = [line for line in printed.splitlines() if "ZeroDivisionError: too hot" in line]
    assert (code, failed.strip().startswith(f"{tmp_path}/"), "plan.seeds.init=1:" in failed) == (2, True, True), printed
    finished = [line.split()[-1] for line in printed.splitlines() if line.split()[-1].isdecimal()]
    assert finished == ["0", "9"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "plan.seeds.init=0,one"], "--set plan.seeds.init: expected a whole number of at least 0, got 'one'"),
        (
            ["--set", "plan.clip=1", "--set", "plan.clip=2"],
            "--set plan.clip is given twice: write all its values in one",
        ),
        (["--device", "nowhere"], 'torch sees no device "nowhere" here'),
        (["--dtype", "float16"], "dtype is one of float32, bfloat16, got 'float16'"),
        (["--memory", "2"], "--memory takes a size with its unit, as in 512MB or 2GB"),
        (["--set", "plan.clip"], "--set takes key=value,value,..., got 'plan.clip'"),
    ],
)
def test_a_bad_setting_is_refused_before_anything_is_trained(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    code, printed = sweep(tmp_path / "sweep", *arguments)
    assert (code, message in printed) == (2, True), printed
    assert not (tmp_path / "sweep").exists()
