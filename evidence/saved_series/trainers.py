"""What trainers write: transformers' Trainer, accelerate, Lightning and its Fabric."""

import functools
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from evidence.saved_series.folders import SHARDS, pretrained
from evidence.saved_series.models import POSITIONS, RATE, STEPS, Model, cross_entropy, tokens, training
from evidence.saved_series.way import Way, config_given, each

SAVED = STEPS[1:]
"""A trainer saves after its steps, never before the first."""

EVERY = STEPS[1]
ROWS = 8 * STEPS[-1]


def trained_by_trainer(model: Model, folder: Path, **settings: Any) -> None:
    """Train by Trainer, which saves `checkpoint-N` beneath the folder."""
    from transformers import Trainer, TrainingArguments

    arguments = TrainingArguments(
        str(folder), max_steps=STEPS[-1], save_steps=EVERY, learning_rate=RATE, report_to="none", use_cpu=True,
        per_device_train_batch_size=4, disable_tqdm=True, **settings,
    )  # fmt: skip
    rows = [{"input_ids": row, "labels": row} for seed in range(STEPS[-1]) for row in tokens(seed)[:, :POSITIONS]]
    Trainer(model, arguments, train_dataset=rows).train()


def _half_trainer(model: Model, folder: Path) -> None:
    trained_by_trainer(model.bfloat16(), folder)


def _accelerator() -> Any:
    from accelerate import Accelerator

    return Accelerator(cpu=True)


def _save_state(model: Model, folder: Path, **how: Any) -> None:
    from accelerate import Accelerator
    from accelerate.utils import ProjectConfiguration

    automatic = ProjectConfiguration(str(folder), automatic_checkpoint_naming=True)
    accelerator = Accelerator(cpu=True, project_config=automatic)
    prepared = accelerator.prepare(model)
    for _ in training(prepared):
        accelerator.save_state(**how)


def _load_state(folder: Path, step: int, model: Model) -> Model:
    accelerator = _accelerator()
    prepared = accelerator.prepare(model)
    accelerator.load_state(str(folder / "checkpoints" / f"checkpoint_{step}"))
    return accelerator.unwrap_model(prepared)


def _save_model(model: Model, folder: Path, step: int, **how: Any) -> None:
    _accelerator().save_model(model, str(folder / f"step_{step}"), **how)


def _load_saved(folder: Path, step: int, model: Model) -> Model:
    from accelerate import load_checkpoint_in_model

    load_checkpoint_in_model(model, str(folder / f"step_{step}"))
    return model


def _module(model: Model) -> Any:
    import lightning.pytorch as lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: Tensor, _: int) -> Tensor:
            return cross_entropy(self.model, batch)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=RATE)

    return Module()


def _lightning(model: Model, folder: Path, **how: Any) -> None:
    import lightning.pytorch as lightning

    save = lightning.callbacks.ModelCheckpoint(folder, every_n_train_steps=EVERY, save_top_k=-1, **how)
    data: Any = torch.utils.data.DataLoader(torch.cat([tokens(seed) for seed in range(STEPS[-1])]), batch_size=8)  # type: ignore[arg-type]
    quiet: dict[str, Any] = {
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "accelerator": "cpu",
    }
    lightning.Trainer(max_steps=STEPS[-1], callbacks=[save], **quiet).fit(_module(model), data)


def _load_lightning(folder: Path, step: int, model: Model) -> Model:
    module = _module(model)
    return type(module).load_from_checkpoint(folder / f"epoch=0-step={step}.ckpt", weights_only=False).model


def _fabric() -> Any:
    import lightning

    return lightning.Fabric(accelerator="cpu", devices=1)


def _save_fabric(model: Model, folder: Path, step: int) -> None:
    _fabric().save(folder / f"step-{step:08d}.ckpt", {"model": model, "iteration": step})


def _load_fabric(folder: Path, step: int, model: Model) -> Model:
    _fabric().load(folder / f"step-{step:08d}.ckpt", {"model": model}, strict=False)
    return model


def ways() -> list[Way]:
    """Return what trainers write."""
    trainer, counts = "transformers, Trainer", tuple(range(len(STEPS)))
    small = functools.partial(trained_by_trainer, save_only_model=True)
    state = functools.partial(_save_state, safe_serialization=False)
    shards = functools.partial(_save_model, max_shard_size=SHARDS)
    saves = "checkpoints"
    return [
        Way("`checkpoint-N`", trainer, trained_by_trainer, pretrained, steps=SAVED),
        Way("`checkpoint-N` of a bfloat16 model", trainer, _half_trainer, pretrained, steps=SAVED),
        Way("`save_only_model`", trainer, small, pretrained, steps=SAVED),
        Way("`save_state`", "accelerate", _save_state, _load_state, saves, counts, options=config_given),
        Way("`save_state`, by torch.save", "accelerate", state, _load_state, saves, counts, options=config_given),
        Way("`save_model`", "accelerate", each(_save_model), _load_saved, options=config_given),
        Way("`save_model` in shards", "accelerate", each(shards), _load_saved, options=config_given),
        Way("`ModelCheckpoint`", "Lightning", _lightning, _load_lightning, steps=SAVED, options=config_given),
        Way("`ModelCheckpoint`, weights only", "Lightning", functools.partial(_lightning, save_weights_only=True),
            _load_lightning, steps=SAVED, options=config_given),
        Way("`Fabric.save`", "Lightning Fabric", each(_save_fabric), _load_fabric, options=config_given),
    ]  # fmt: skip
