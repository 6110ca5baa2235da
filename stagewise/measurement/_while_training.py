"""Probes while another library trains: callbacks that measure at chosen optimiser steps and hand the numbers on."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import torch

from stagewise.checkpoints.series import open_series
from stagewise.checkpoints.trainer_callbacks import lightning, part_of
from stagewise.measurement.engine import measure
from stagewise.probe import AbstractProbe
from stagewise.table import KEYS, VALUES, head_label
from stagewise.task import Batch

_Log = Callable[[dict[str, float]], Any]
"""A function that takes numbers by name: `trainer.log` of transformers' Trainer, `wandb.log`."""


def measured_now(model: Any, step: int, probes: Sequence[AbstractProbe], batch: Batch) -> dict[str, float]:
    """Return numbers as "AttentionTo/mass/L0H1/induction"; neither model nor torch's random numbers change."""
    training = model.training
    with torch.random.fork_rng():
        table = measure(open_series([(step, model)]), list(probes), batch, resamples=1, progress=False)
    model.train(training)
    rows = table[table["value"].notna()]
    labels = rows.drop(columns=[*VALUES, "tokens", "nested"], errors="ignore")
    return {_name(row): float(value) for row, value in zip(labels.to_dict("records"), rows["value"], strict=True)}


def _name(row: Mapping[Any, Any]) -> str:
    labels = {name: label for name, label in row.items() if name not in KEYS and not pd.isna(label)}
    of_head = {"layer", "head"} <= labels.keys()
    parts = [head_label(int(labels.pop("layer")), int(labels.pop("head")))] if of_head else []
    return "/".join([row["probe"], row["quantity"], *parts, *map(str, labels.values())])


def measure_on(steps: Iterable[int], probes: Sequence[AbstractProbe], batch: Batch, log: _Log) -> Any:
    """Return a callback for `transformers.Trainer` that measures at these optimiser steps and logs what it finds.

    `trainer.add_callback(measure_on(linear(100, 5000), [Loss(), AttentionTo()], batch, trainer.log))` logs to whatever
    the trainer logs to, as TensorBoard or Weights & Biases; `log` may be any function of a dictionary.

    Args:
        steps: a schedule; step 0 counts too.
        probes: few, and quick ones.
        batch: the fixed probe batch, as `Batch.from_tokens` makes one.
        log: what the numbers are handed to.
    """
    from transformers import TrainerCallback

    schedule = frozenset(steps)

    class MeasureOn(TrainerCallback):  # type: ignore[misc]  # untyped base
        """Measures at chosen optimiser steps."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **known: Any) -> None:
            if state.global_step == 0:
                self.on_step_end(args, state, control, **known)

        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            if state.global_step in schedule and state.is_world_process_zero:
                log(measured_now(model, state.global_step, probes, batch))

    return MeasureOn()


def measure_on_lightning(
    steps: Iterable[int], probes: Sequence[AbstractProbe], batch: Batch, part: str | None = None
) -> Any:
    """Return a callback for Lightning's Trainer that measures at these optimiser steps, and logs to its loggers.

    Args:
        steps: a schedule, of `trainer.global_step`; step 0 counts too.
        probes: few, and quick ones.
        batch: the fixed probe batch.
        part: the attribute of the LightningModule that holds the model; None measures the whole module.

    Raises:
        ImportError: there is no Lightning.
    """
    schedule = frozenset(steps)

    class MeasureOn(lightning().Callback):  # type: ignore[misc]  # untyped base
        """Measures at chosen optimiser steps."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.on_train_batch_end(trainer, pl_module)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
            if trainer.global_step in schedule and trainer.is_global_zero:
                values = measured_now(part_of(pl_module, part), trainer.global_step, probes, batch)
                for logger in trainer.loggers:
                    logger.log_metrics(values, trainer.global_step)

    return MeasureOn()
