"""Probes while another library trains: the numbers are those of the checkpoint, and the training is the same."""

from pathlib import Path
from typing import Any

import pytest
import torch

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints.series import open_series
from stagewise.measurement._while_training import measure_on, measure_on_lightning, measured_now
from stagewise.measurement.engine import measure
from stagewise.probes import AttentionTo, Loss
from stagewise.task import Batch

BATCH = Batch.from_tokens(torch.tensor([[1, 2, 1, 2, 3], [3, 4, 3, 4, 0]]), ["induction", "self"])
SIZES = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "attn_only": True}


def trained(folder: Path, probed: bool) -> tuple[Any, list[dict[str, float]]]:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    torch.manual_seed(0)
    rows = [{"input_ids": row, "labels": row} for row in torch.randint(5, (8, 6))]
    model = GPT2LMHeadModel(GPT2Config(vocab_size=5, n_embd=8, n_layer=1, n_head=2, n_positions=6))
    arguments = TrainingArguments(
        str(folder), max_steps=3, per_device_train_batch_size=2, use_cpu=True, disable_tqdm=True, save_strategy="no",
        logging_strategy="no", report_to=[],
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=rows)
    if probed:
        trainer.add_callback(measure_on({0, 2}, [Loss(), AttentionTo()], BATCH, trainer.log))
    trainer.train()
    return model, [entry for entry in trainer.state.log_history if "Loss/cross_entropy" in entry]


@pytest.mark.slow
def test_trainer_logs_what_is_measured_and_trains_the_same(tmp_path: Path) -> None:
    model, logged = trained(tmp_path / "probed", probed=True)
    plain, none = trained(tmp_path / "plain", probed=False)
    assert [entry["step"] for entry in logged] == [0, 2]
    assert none == []
    assert {"AttentionTo/mass/L0H1/induction", "AttentionTo/along/L0H0/self"} <= logged[0].keys()
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_numbers_are_those_of_a_measurement_and_no_random_number_is_drawn() -> None:
    model: Any = models.build(Architecture(SIZES), 3)
    model.train()
    state = torch.random.get_rng_state()
    values = measured_now(model, 7, [Loss()], BATCH)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert model.training
    table = measure(open_series([(7, model)]), [Loss()], BATCH, progress=False)
    (expected,) = table.loc[table["quantity"] == "cross_entropy", "value"]
    assert values["Loss/cross_entropy"] == pytest.approx(expected)


def test_lightning_logs_to_its_loggers() -> None:
    pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
    logged: list[tuple[int, set[str]]] = []

    class Logger:
        def log_metrics(self, values: dict[str, float], step: int) -> None:
            logged.append((step, set(values)))

    class Trainer:
        global_step, is_global_zero, loggers = 0, True, (Logger(),)

    class Module:
        net = models.build(Architecture(SIZES), 3)

    callback, trainer = measure_on_lightning({0, 2}, [Loss()], BATCH, "net"), Trainer()
    callback.on_train_start(trainer, Module())
    for step in (1, 2, 3):
        trainer.global_step = step
        callback.on_train_batch_end(trainer, Module(), None, None, 0)
    assert [step for step, _ in logged] == [0, 2]
    assert "Loss/cross_entropy" in logged[0][1]
