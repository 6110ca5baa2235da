"""Folders of curves: MLflow's layout, and a JSON file a step."""

import json
from pathlib import Path

import pytest

from stagewise.checkpoints._log_folders import is_folder_of_curves, read_folder
from stagewise.checkpoints.logged_curves import is_log, read_log


def mlflow_run(folder: Path, name: str) -> None:
    """The files of a run in MLflow's store of files: `time value step` a line (mlflow.org, tracking/backend-stores)."""
    (folder / "metrics" / "eval").mkdir(parents=True)
    (folder / "tags").mkdir()
    (folder / "meta.yaml").write_text("artifact_uri: ''\n")
    (folder / "tags" / "mlflow.runName").write_text(name)
    for metric, scale in (("loss", 1.0), ("eval/accuracy", 0.1)):
        lines = [f"17000000000{i} {scale * i} {10 * i}" for i in range(6)]
        (folder / "metrics" / metric).write_text("\n".join(lines) + "\n")


def test_runs_of_mlflow_lie_beside_each_other(tmp_path: Path) -> None:
    for name in ("swift-sun", "calm-sea"):
        mlflow_run(tmp_path / "0" / name, name)
    table = read_log(tmp_path)
    assert sorted(table["run"].unique()) == ["calm-sea", "swift-sun"]
    assert sorted(table["quantity"].unique()) == ["eval/accuracy", "loss"]
    assert table[table["quantity"] == "loss"].groupby("run")["value"].apply(list)["calm-sea"] == [0, 1, 2, 3, 4, 5]
    assert is_log(tmp_path / "0" / "swift-sun")


def test_a_json_file_a_step_is_a_row(tmp_path: Path) -> None:
    for step in (0, 10, 20, 100):
        (tmp_path / f"results_step_{step}.json").write_text(json.dumps({"acc": {"wsc": step / 100}, "model": "mine"}))
    frame = read_folder(tmp_path)
    assert frame["step"].tolist() == [0, 10, 20, 100]
    assert frame["acc/wsc"].tolist() == [0, 0.1, 0.2, 1.0]
    (tmp_path / "results_step_20.json").write_text("[")
    with pytest.raises(ValueError, match=r"results_step_20.json is not valid JSON"):
        read_folder(tmp_path)


def test_texts_alone_are_runs_by_their_names(tmp_path: Path) -> None:
    for seed in (0, 1):
        lines = [f"step {step}: loss {3 - step / 100 + seed}" for step in range(0, 60, 10)]
        (tmp_path / f"seed-{seed}.log").write_text("\n".join(lines))
    with pytest.warns(UserWarning, match=r"seed-0.log: the step is 'step' \(6 lines\)"):
        table = read_log(tmp_path)
    assert table.groupby("run")["value"].max().to_dict() == {"seed-0": 3.0, "seed-1": 4.0}
    (tmp_path / "checkpoint-10").mkdir()
    assert not is_log(tmp_path)


def test_a_folder_of_checkpoints_is_none(tmp_path: Path) -> None:
    for name in ("config.json", "model_100.pt", "train.log", "trainer_state.json"):
        (tmp_path / name).write_text("{}")
    assert not is_folder_of_curves(tmp_path)
