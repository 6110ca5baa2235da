"""Logs of trackers, each written by its tool: read, or called by its name with what makes a log of it."""

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stagewise.checkpoints.logged_curves import read_log

LOSSES = [3 / (1 + 2.0 ** ((step - 10) / 2)) for step in range(20)]
HOLES = {12: float("nan"), 13: float("inf")}


def values(source: Path) -> dict[str, list[float]]:
    table = read_log(source)
    return {str(run): part["value"].tolist() for run, part in table[table["quantity"] == "loss"].groupby("run")}


def without_holes() -> list[float]:
    return [loss for step, loss in enumerate(LOSSES) if step not in HOLES]


@pytest.mark.filterwarnings("ignore:loss is infinite")
def test_the_database_of_mlflow_is_read_run_by_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        with mlflow.start_run(run_name=name):
            for step, loss in enumerate(LOSSES):
                mlflow.log_metric("loss", HOLES.get(step, loss), step=step)
    found = values(tmp_path / "mlflow.db")
    assert found.keys() == {"one", "two"}
    np.testing.assert_allclose(found["two"], without_holes(), rtol=1e-15)
    with pytest.raises(ValueError, match=r"holds a log: give .*mlflow\.db"):
        read_log(tmp_path)


@pytest.mark.filterwarnings("ignore:loss is infinite")
def test_the_database_of_trackio_is_read_and_runs_of_one_name_are_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    trackio = pytest.importorskip("trackio", reason="trackio is not installed")
    for _ in range(2):
        trackio.init(project="project", name="one")
        for step, loss in enumerate(LOSSES):
            trackio.log({"loss": HOLES.get(step, loss)})
        trackio.finish()
    found = values(tmp_path / "project.db")
    assert len(found) == 2
    assert all(run.startswith("one ") for run in found)
    np.testing.assert_allclose(next(iter(found.values())), without_holes(), rtol=1e-15)


def test_a_database_that_is_cut_off_is_called_so(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "log.db")) as database:
        database.execute("CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_id, run_name, step, metrics)")
        rows = [("a", "one", step, f'{{"loss": {loss}}}') for step, loss in enumerate(LOSSES * 40)]
        database.executemany("INSERT INTO metrics (run_id, run_name, step, metrics) VALUES (?, ?, ?, ?)", rows)
        database.commit()
    held = (tmp_path / "log.db").read_bytes()
    (tmp_path / "log.db").write_bytes(held[: len(held) // 2])
    with pytest.raises(ValueError, match=r"log\.db is cut off or damaged: "):
        read_log(tmp_path / "log.db")


def test_an_offline_log_of_weights_and_biases_is_refused_with_the_command_that_makes_one(tmp_path: Path) -> None:
    (file := tmp_path / "run-1.wandb").write_bytes(b":W&B")
    for source in (tmp_path, file):
        with pytest.raises(ValueError, match=rf"wandb leet inspect --json {file} > run.jsonl"):
            read_log(source)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:loss is infinite")
def test_an_offline_log_of_weights_and_biases_is_read_by_the_advised_command(tmp_path: Path) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    command = Path(sys.executable).with_name("wandb")
    if not command.exists():
        pytest.skip("the command `wandb` is not installed beside Python")
    run = wandb.init(project="project", mode="offline", dir=tmp_path, settings=wandb.Settings(silent=True))
    for step, loss in enumerate(LOSSES):
        run.log({"loss": HOLES.get(step, loss), "inner": {"other": loss**2}})
    run.finish()
    shutil.rmtree(tmp_path / "wandb" / "latest-run", ignore_errors=True)
    (tmp_path / "wandb" / "latest-run").unlink(missing_ok=True)
    (file,) = tmp_path.rglob("*.wandb")
    for source in (tmp_path, file):
        with pytest.raises(ValueError, match=rf"wandb leet inspect --json {file} > run.jsonl"):
            read_log(source)
    printed = subprocess.run([command, "leet", "inspect", "--json", file], capture_output=True, check=True, text=True)
    (tmp_path / "run.jsonl").write_text(printed.stdout)
    np.testing.assert_allclose(values(tmp_path / "run.jsonl")["run"], without_holes(), rtol=1e-12)


def test_metrics_of_sacred_are_curves(tmp_path: Path) -> None:
    sacred = pytest.importorskip("sacred", reason="sacred is not installed")
    observers = pytest.importorskip("sacred.observers")
    experiment = sacred.Experiment("run", interactive=True)
    experiment.observers.append(observers.FileStorageObserver(str(tmp_path)))

    def main(_run: Any) -> None:
        for loss in LOSSES:
            _run.log_scalar("loss", loss)

    experiment.main(main)
    experiment.run()
    assert values(tmp_path / "1" / "metrics.json")["metrics"] == LOSSES


def test_a_database_of_something_else_is_refused_in_a_line(tmp_path: Path) -> None:
    sqlite3 = pytest.importorskip("sqlite3")
    database = sqlite3.connect(tmp_path / "other.db")
    database.execute("CREATE TABLE metrics (name TEXT)")
    database.commit()
    database.close()
    with pytest.raises(ValueError, match="a database without the metrics of MLflow or trackio"):
        read_log(tmp_path / "other.db")
