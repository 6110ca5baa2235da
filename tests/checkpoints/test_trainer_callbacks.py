"""Trainer saves by stagewise's schedules, counting optimiser steps; a model in a loop is saved with what opens it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from stagewise import models
from stagewise.architecture import Architecture
from stagewise.checkpoints.audit import audit
from stagewise.checkpoints.series import find, open_series
from stagewise.checkpoints.trainer_callbacks import save_checkpoint, save_on

CONFIG = {"n_layers": 1, "d_model": 8, "d_head": 4, "n_ctx": 6, "d_vocab": 5, "act_fn": "relu"}


def fit(folder: Path, model: Any, **options: Any) -> None:
    """Train by Trainer for seven updates of two batches each."""
    from transformers import Trainer, TrainingArguments

    rows = [{"input_ids": row, "labels": row} for row in torch.randint(5, (8, 6))]
    arguments = TrainingArguments(
        str(folder), max_steps=7, per_device_train_batch_size=2, gradient_accumulation_steps=2, use_cpu=True,
        disable_tqdm=True, save_strategy="no", logging_strategy="no", report_to=[], **options,
    )  # fmt: skip
    Trainer(model, arguments, train_dataset=rows, callbacks=[save_on({2, 3, 40})]).train()


def test_trainer_saves_at_the_schedules_steps(tmp_path: Path, hugging_face: Callable[..., Any]) -> None:
    fit(tmp_path, model := hugging_face("GPT2", n_positions=6, vocab_size=5))
    series = open_series(tmp_path)
    assert series.steps == (0, 2, 3, 7)
    assert audit(find(tmp_path)).clean
    embedding = "transformer.wte.weight"
    assert torch.equal(series.weights(7)[embedding], model.state_dict()[embedding])
    assert not torch.equal(series.weights(0)[embedding], series.weights(7)[embedding])


def test_a_limit_that_would_delete_checkpoints_is_refused(tmp_path: Path, hugging_face: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="save_total_limit = 2 would delete checkpoints of the series"):
        fit(tmp_path, hugging_face("GPT2", n_positions=6, vocab_size=5), save_total_limit=2)


def test_models_of_either_kind_are_saved_with_what_opens_them(tmp_path: Path, hugging_face: Callable[..., Any]) -> None:
    for name, model in (("own", models.build(Architecture(CONFIG))), ("plain", hugging_face("GPT2"))):
        save_checkpoint(model, tmp_path / name, 3)
        series = open_series(tmp_path / name, steps=[3])
        assert series.architecture.n_heads == models.described(model).n_heads
        saved, held = series.weights(3), models.weights(model)
        assert all(torch.equal(weight, held[key]) for key, weight in saved.items())
