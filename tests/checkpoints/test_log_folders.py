"""Folders of curves: MLflow's layout, and a JSON file a step."""

import builtins
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stagewise.checkpoints._log_folders import files_of_steps, is_events, read_a_file_a_step, read_events
from stagewise.checkpoints.logged_curves import read_log
from stagewise.checkpoints.openers import is_log


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
    frame = read_a_file_a_step(tmp_path)
    assert frame["step"].tolist() == [0, 10, 20, 100]
    assert frame["acc/wsc"].tolist() == [0, 0.1, 0.2, 1.0]
    (tmp_path / "results_step_20.json").write_text("[")
    with pytest.raises(ValueError, match=r"results_step_20.json is not valid JSON"):
        read_a_file_a_step(tmp_path)


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
    assert not files_of_steps(tmp_path)
    assert not is_log(tmp_path)


tensorboard = pytest.importorskip("tensorboard.summary", reason="TensorBoard is not installed")

STEPS = range(0, 200, 50)


def by_torch(folder: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(folder) as writer:
        for step in STEPS:
            writer.add_scalar("train/loss", 3 - step / 100, step)
        writer.add_histogram("weights", np.arange(5.0), 0)


def by_tensors(folder: Path) -> None:
    """As TensorFlow's and JAX's writers do."""
    writer = tensorboard.Writer(str(folder))
    for step in STEPS:
        writer.add_scalar("train/loss", np.float32(3 - step / 100), step)
    writer.close()


@pytest.mark.parametrize("write", [by_torch, by_tensors])
def test_the_scalars_of_a_folder_or_a_file_are_curves(write: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "run 1"
    write(folder)
    (folder / "hparams.yaml").write_text("{}")
    file = next(folder.glob("*tfevents*"))
    for source in (folder, file):
        assert is_log(source)
        table = read_log(source)
        assert table["run"].unique().tolist() == ["run 1"]
        assert table["quantity"].unique().tolist() == ["train/loss"]
        assert table["step"].tolist() == [*STEPS]
        assert table["value"].tolist() == pytest.approx([3 - step / 100 for step in STEPS])


def test_folders_in_a_folder_are_runs(tmp_path: Path) -> None:
    for place in ("a", "more/b"):
        by_torch(tmp_path / "log" / place)
    assert is_log(tmp_path / "log")
    assert read_log(tmp_path / "log")["run"].unique().tolist() == ["a", "more/b"]
    by_torch(tmp_path / "log")  # as add_scalars leaves folders beside its file
    assert read_log(tmp_path / "log")["run"].unique().tolist() == ["log", "a", "more/b"]
    (tmp_path / "log" / "checkpoints").mkdir()
    (tmp_path / "log" / "checkpoints" / "last.ckpt").touch()
    assert not is_log(tmp_path / "log")


def test_the_log_of_trainer_is_read_but_for_its_clocks(tmp_path: Path, hugging_face: Callable[..., Any]) -> None:
    from torch.utils.tensorboard import SummaryWriter
    from transformers import Trainer, TrainingArguments
    from transformers.integrations import TensorBoardCallback

    data = [{name: list(range(1, 7)) for name in ("input_ids", "labels")}] * 8
    arguments = TrainingArguments(
        str(tmp_path), max_steps=4, logging_steps=1, save_strategy="no", use_cpu=True, report_to=[], disable_tqdm=True
    )
    callback = TensorBoardCallback(SummaryWriter(tmp_path / "log"))
    Trainer(hugging_face("GPT2"), arguments, train_dataset=data, callbacks=[callback]).train()
    table = read_log(tmp_path / "log")
    steps = {name: rows["step"].tolist() for name, rows in table.groupby("quantity")}
    assert steps["train/loss"] == steps["train/learning_rate"] == [1, 2, 3, 4]
    assert not any("epoch" in str(name) for name in steps)


def test_the_log_of_lightning_is_read(tmp_path: Path) -> None:
    loggers = pytest.importorskip("lightning.pytorch.loggers", reason="Lightning is not installed")
    logger = loggers.TensorBoardLogger(tmp_path)
    for step in STEPS:
        logger.log_metrics({"train_loss": 3.0 - step / 100, "epoch": 0, "lr-AdamW/pg1": 1e-3}, step)
    logger.finalize("success")
    table = read_log(logger.log_dir)
    assert table["quantity"].unique().tolist() == ["train_loss", "lr-AdamW/pg1"]


def test_a_folder_of_other_things_is_none_of_event_files(tmp_path: Path) -> None:
    by_torch(tmp_path)
    assert is_events(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    assert not is_events(tmp_path)
    assert not is_events(tmp_path / "checkpoints")
    assert not is_events(tmp_path / "nowhere")


def test_files_without_scalars_and_a_machine_without_tensorboard_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "events.out.tfevents.1.here").write_bytes(b"")
    with pytest.raises(ValueError, match=r"tfevents.1.here holds no scalars"):
        read_events(tmp_path / "events.out.tfevents.1.here")
    found = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("tensorboard"):
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ValueError, match=r"read by TensorBoard: `pip install 'stagewise\[tensorboard\]'"):
        read_events(tmp_path)


@pytest.mark.parametrize("part", [0.6, 0.8, 0.95])
@pytest.mark.parametrize("write", [by_torch, by_tensors])
def test_where_a_damaged_event_file_was_left_is_said(
    write: Callable[[Path], None], part: float, tmp_path: Path
) -> None:
    write(tmp_path)
    file = next(tmp_path.glob("*tfevents*"))
    content = bytearray(file.read_bytes())
    content[int(part * len(content))] ^= 0xFF
    file.write_bytes(content)
    left_out = r"tfevents.* is damaged at byte \d+, .*; \d+ bytes after it are left out"
    with pytest.warns(UserWarning, match=left_out) as said:
        read_events(tmp_path)
    read, left = map(int, re.findall(r"(?:byte |; )(\d+)", str(said[0].message)))
    assert read + left == len(content)
    assert read <= part * len(content)


def test_a_folder_without_scalars_beside_those_of_curves_is_no_run(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:  # which makes a folder for each of the curves
        for step in STEPS:
            writer.add_scalars("loss", {"train": 3 - step / 100, "val": 4 - step / 100}, step)
    assert read_events(tmp_path)["run"].unique().tolist() == ["loss_train", "loss_val"]


def test_a_last_value_without_a_step_is_left_out_of_tensorboards_curve(tmp_path: Path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard", reason="TensorBoard is not installed")
    with tensorboard.SummaryWriter(tmp_path) as writer:
        for step in range(10):
            writer.add_scalar("loss", 10.0 - step, step)
        writer.add_scalar("loss", 0.5)
    with pytest.warns(UserWarning, match="the last value of loss, at step 0, is left out: logged without a step"):
        table = read_log(tmp_path)
    assert table["value"].tolist() == [10.0 - step for step in range(10)]


def lightning_versions(folder: Path, *starts: int) -> None:
    """Write a version of Lightning's CSVLogger for each first step."""
    from lightning.pytorch.loggers import CSVLogger

    for version, start in enumerate(starts):
        logger = CSVLogger(str(folder.parent), name=folder.name, version=version)
        for step in range(start, start + 50, 10):
            logger.log_metrics({"train_loss": 3.0 - step / 100}, step)
        logger.save()


def test_versions_of_lightning_that_follow_one_another_are_one_run(tmp_path: Path) -> None:
    lightning_versions(tmp_path / "logs", 0, 50)
    table = read_log(tmp_path / "logs")
    assert (table["run"].nunique(), table["step"].tolist()) == (1, [*range(0, 100, 10)])


def test_versions_of_lightning_with_the_same_steps_are_runs_and_one_is_a_run(tmp_path: Path) -> None:
    lightning_versions(tmp_path / "logs", 0, 0)
    assert read_log(tmp_path / "logs").groupby("run").size().to_dict() == {"version_0": 5, "version_1": 5}
    assert len(read_log(tmp_path / "logs" / "version_1")) == 5


def test_a_folder_of_other_tables_is_none_of_lightning(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "metrics.csv").write_text("step,loss\n0,1\n")
    assert not is_log(tmp_path)
