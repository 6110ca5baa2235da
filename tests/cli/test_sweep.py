"""`stagewise series sweep`: a run folder a setting, a table of all, nothing done twice."""

import concurrent.futures
import glob
import logging
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from typer.testing import CliRunner

from stagewise.checkpoints.run_folder import table_file
from stagewise.cli._sweep import JOBS, _parameters, executor_named
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
        (["--executor", "nowhere"], "--executor is dask:ADDRESS, or submitit with its parameters"),
        (["--set", "plan.clip"], "--set takes key=value,value,..., got 'plan.clip'"),
    ],
)
def test_a_bad_setting_is_refused_before_anything_is_trained(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    code, printed = sweep(tmp_path / "sweep", *arguments)
    assert (code, message in printed) == (2, True), printed
    assert not (tmp_path / "sweep").exists()


def double(x: int) -> int:
    return 2 * x


def test_nothing_named_is_left_to_the_sweep(tmp_path: Path) -> None:
    with executor_named(None, tmp_path) as executor:
        assert executor is None


@pytest.mark.parametrize("text", ["slurm", "dask", "dask:", ""])
def test_another_name_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--executor is dask:ADDRESS, or submitit"), executor_named(text, tmp_path):
        pass


def test_the_address_of_a_scheduler_is_taken(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        executor_named(f"dask:{cluster.scheduler_address}", tmp_path) as executor,
    ):
        assert executor is not None
        assert executor.submit(double, 4).result() == 8


@pytest.mark.usefixtures("few_sequences", "unchecked")
def test_checkpoints_are_measured_on_a_cluster(
    small_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    for name in ("here", "there"):
        shutil.copytree(small_folder, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert measured("here") == 0
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster:
        assert measured("there", "--executor", f"dask:{cluster.scheduler_address}") == 0
    assert_frame_equal(table_file(Path("here")).read(), table_file(Path("there")).read().assign(run="here"))


def called(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == status, result.output
    return " ".join(result.output.split())


@pytest.mark.slow
@pytest.mark.usefixtures("few_sequences", "unchecked")
def test_the_checkpoints_of_a_lost_worker_are_measured_by_another(small_folder: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    for name in ("here", "there"):
        shutil.copytree(small_folder, tmp_path / name / "run")
    assert measured(str(tmp_path / "here" / "run")) == 0
    options = {"n_workers": 3, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.CRITICAL}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        workers = [*client.run(os.getpid).values()]
        killer = threading.Thread(target=kill_when_measuring, args=(tmp_path / "there" / "run", workers[0]))
        killer.start()
        assert measured(str(tmp_path / "there" / "run"), "--executor", f"dask:{cluster.scheduler_address}") == 0
        killer.join()
        assert workers[0] not in client.run(os.getpid).values()
    assert_frame_equal(table_file(tmp_path / "here" / "run").read(), table_file(tmp_path / "there" / "run").read())


def kill_when_measuring(folder: Path, worker: int) -> None:
    """Kill a worker once rows of any checkpoint are there: it has begun one by then."""
    while not list(folder.glob("tables/parts/*/step-*.parquet")):
        time.sleep(0.01)
    os.kill(worker, signal.SIGKILL)


def measured(*arguments: str) -> int:
    result = CliRunner().invoke(app, ["measure", *arguments, "--only", "Loss", "--only", "AttentionTo", "--quiet"])
    assert result.exit_code == 0, result.output
    return result.exit_code


def test_parameters_of_submitit_are_passed_on_and_jobs_lie_hidden_in_the_sweeps_folder(tmp_path: Path) -> None:
    pytest.importorskip("submitit", reason="the extra `cluster` is not installed")
    with executor_named("submitit:timeout_min=7", tmp_path) as executor:
        assert executor is not None
        job = executor.submit(double, 4)
    assert job.result() == 8
    assert [path.name for path in tmp_path.iterdir()] == [JOBS]
    assert glob.glob(f"{tmp_path}/*/") == []
    bad = executor_named("submitit:timeout", tmp_path)
    with pytest.raises(ValueError, match=r"key=value,key=value,...; got 'timeout'"), bad:
        pass


def test_what_is_not_installed_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    missing = executor_named("submitit", tmp_path)
    with pytest.raises(ValueError, match=r"submitit is not installed: pip install 'stagewise\[cluster\]'"), missing:
        pass


def test_parameters_of_submitit_are_numbers_or_text() -> None:
    assert _parameters("slurm_partition=cpu,timeout_min=60") == {"slurm_partition": "cpu", "timeout_min": 60}
