"""Logs of trackers, each written by its tool: read, or called by its name with what makes a log of it."""

import shutil
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
@pytest.mark.parametrize("store", ["sqlite:///mlflow.db", "mlruns"])
def test_curves_of_mlflow_are_read_by_its_client_as_advised(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(store)
    with mlflow.start_run() as run:
        for step, loss in enumerate(LOSSES):
            mlflow.log_metric("loss", HOLES.get(step, loss), step=step)
    for source in (tmp_path, *([tmp_path / "mlflow.db"] if "db" in store else [])):
        with pytest.raises(ValueError, match=r"of MLflow: `MlflowClient\(\).get_metric_history"):
            read_log(source)
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "loss")
    table = read_log({"step": [one.step for one in history], "loss": [one.value for one in history]})
    np.testing.assert_allclose(table["value"], without_holes(), rtol=1e-15)


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


def test_a_database_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_bytes(b"SQLite format 3\0")
    with pytest.raises(ValueError, match=r"in a tracker's database: save its columns of steps and values as \.csv"):
        read_log(tmp_path / "other.db")
