"""Logs that lack a part of the training whose checkpoints lie beside them, written by the trainer that loses it."""

import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from stagewise.checkpoints.logged_curves import read_log


def trained(folder: Path, epochs: int, checkpoint: Path | None = None) -> Path:
    """Train with Lightning, and return the log."""
    lightning = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed: pip install lightning")
    from lightning.pytorch.callbacks import ModelCheckpoint
    from lightning.pytorch.loggers import CSVLogger

    class Square(lightning.LightningModule):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def training_step(self, batch: Any, number: int) -> torch.Tensor:
            loss: torch.Tensor = self.linear(batch[0]).pow(2).mean()
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.01)

    batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(64, 4)), batch_size=4)
    trainer = lightning.Trainer(
        max_epochs=epochs, logger=CSVLogger(folder, name="", version="run"), log_every_n_steps=2,
        callbacks=[ModelCheckpoint(every_n_train_steps=8, save_top_k=-1)],
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Square(), batches, ckpt_path=checkpoint)
    return folder / "run" / "metrics.csv"


@pytest.mark.filterwarnings("ignore")
def test_a_log_that_a_resumed_training_wrote_anew_is_told_by_the_checkpoints_before_it(tmp_path: Path) -> None:
    log = trained(tmp_path, 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        whole = read_log(log)
    assert not [each for each in caught if "checkpoints" in str(each.message)]
    trained(tmp_path, 4, max((log.parent / "checkpoints").iterdir()))
    assert read_log(log)["step"].min() > whole["step"].max()
    with pytest.warns(UserWarning, match=r"metrics\.csv begins at step 33, behind 3 checkpoints beside it"):
        read_log(log)


@pytest.mark.filterwarnings("ignore")
def test_a_log_that_ends_before_its_checkpoints_is_told(tmp_path: Path) -> None:
    log = trained(tmp_path, 3)
    pd.read_csv(log).head(5).to_csv(log, index=False)
    with pytest.warns(UserWarning, match=r"metrics\.csv ends at step 9, before 5 checkpoints beside it"):
        read_log(log)
