"""TensorBoard's event files, written by what writes them: torch, TensorBoard itself, Trainer and Lightning."""

import builtins
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stagewise.checkpoints._event_files import is_events, read_events
from stagewise.checkpoints.logged_curves import is_log, read_log

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


def test_a_folder_without_scalars_beside_those_of_curves_is_no_run(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:  # which makes a folder for each of the curves
        for step in STEPS:
            writer.add_scalars("loss", {"train": 3 - step / 100, "val": 4 - step / 100}, step)
    assert read_events(tmp_path)["run"].unique().tolist() == ["loss_train", "loss_val"]
