"""Logs that other tools write: transformers' Trainer trains a model whose loss is planted, and logs it itself."""

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from evidence.answers.case import Case, Truth
from evidence.answers.logged import kind, loss, one
from evidence.answers.planting import generator
from evidence.answers.told import SPIKE
from stagewise import read_log

STEPS, EVERY = 1200, 20


class TrainerLog(NamedTuple):
    """A loss to plant at every logged step, the schedule, and the truth."""

    sentence: str
    make: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    schedule: Mapping[str, Any]
    truth: Truth


def _spiked(g: np.random.Generator, t: np.ndarray) -> np.ndarray:
    return np.asarray(loss(g, t) + 2.5 * ((t > 700) & (t <= 740)))


LOGS = {
    "smooth": TrainerLog(
        "A smooth loss; the learning rate decays linearly.", loss, {"lr_scheduler_type": "linear"}, Truth()
    ),
    "a fall": TrainerLog(
        "One fall at step 400; the learning rate decays linearly.",
        lambda g, t: loss(g, t, 400), {"lr_scheduler_type": "linear"}, one(400),
    ),
    "a spike": TrainerLog(
        "A smooth loss with a spike of 2.5 nats at step 720.", _spiked, {"lr_scheduler_type": "constant"}, kind(SPIKE)
    ),
    "a fall within the warm-up": TrainerLog(
        "One fall at step 400, within a warm-up of 600 steps.", lambda g, t: loss(g, t, 400),
        {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 600}, one(400, cause=True),
    ),
}  # fmt: skip


def cases() -> Iterator[Case]:
    """Yield the logs of Trainer."""
    for name, log in LOGS.items():
        yield Case(f"Trainer: {name}", log.sentence, functools.partial(_trained, name, log), log.truth)


class Planted(torch.nn.Module):
    """A model whose loss at each update is planted."""

    def __init__(self, losses: np.ndarray) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.losses, self.update = losses, 0

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Return the loss of this update; its gradient does nothing."""
        value = float(self.losses[min(self.update, len(self.losses) - 1)])
        self.update += 1
        return {"loss": value + 0 * self.weight.sum() + 0 * x.float().sum()}


def _trained(name: str, log: TrainerLog, folder: Path) -> pd.DataFrame:
    from transformers import PrinterCallback, Trainer, TrainingArguments

    path = folder / "trainer_state.json"
    if not path.exists():
        logged = np.arange(EVERY, STEPS + 1, EVERY).astype(float)
        losses = np.repeat(log.make(generator(name), logged), EVERY)
        arguments = TrainingArguments(
            str(folder / "output"), max_steps=STEPS, logging_steps=EVERY, per_device_train_batch_size=1,
            report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True, **log.schedule,
        )  # fmt: skip
        data = [{"x": torch.zeros(1)}] * STEPS
        trainer = Trainer(model=Planted(losses), args=arguments, train_dataset=data)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        folder.mkdir(parents=True, exist_ok=True)
        trainer.state.save_to_json(str(path))
    return read_log(path, run=name)
