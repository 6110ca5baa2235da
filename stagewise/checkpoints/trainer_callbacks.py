"""Callbacks with which other libraries' trainers save on stagewise's schedules, counting optimiser steps."""

import json
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stagewise import models
from stagewise.checkpoints._architectures import CONFIG
from stagewise.checkpoints._weight_names import WHOLE
from stagewise.checkpoints._writing import write_folder
from stagewise.checkpoints.sources import TRAINER

LIGHTNING = ("lightning.pytorch", "pytorch_lightning")
"""The two names of one library; a program uses one of them."""


def save_on(steps: Iterable[int]) -> Any:
    """Return a callback for `transformers.Trainer` that saves `checkpoint-N` folders at these optimiser steps.

    Step 0, the initialisation, and the last step are always saved. Use it with `save_strategy="no"`, and without
    `save_total_limit`, which deletes.

    Args:
        steps: a schedule, as in `linear(100, 10_000) | logarithmic(8, 100)`.

    Raises:
        ValueError: (when training starts) the arguments limit how many checkpoints are kept.
    """
    from transformers import TrainerCallback

    schedule = frozenset(steps)

    class SaveOn(TrainerCallback):  # type: ignore[misc]  # untyped base
        """Saves at chosen optimiser steps."""

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            if (limit := args.save_total_limit) is not None:
                raise ValueError(f"save_total_limit = {limit} would delete checkpoints of the series: leave it out")
            if state.global_step == 0 and state.is_world_process_zero:
                folder = Path(args.output_dir) / "checkpoint-0"
                model.save_pretrained(folder)
                state.save_to_json(str(folder / TRAINER))

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            control.should_save = state.global_step in schedule or state.global_step >= state.max_steps
            return control

    return SaveOn()


def save_on_lightning(steps: Iterable[int], folder: str | Path, part: str | None = None) -> Any:
    """Return a callback for Lightning's Trainer that saves `checkpoint-N` folders at these optimiser steps.

    Step 0, the initialisation, and the last step are always saved. Steps are `trainer.global_step`: updates of the
    optimiser, however many batches each takes. Where several optimisers alternate it counts all updates, and a
    step between two batches is saved after the second, under the number reached. `open_series(folder)` reads
    Hugging Face models and HookedTransformers as they are; for other modules give it the `architecture`.

    Args:
        steps: a schedule, as in `linear(100, 10_000) | logarithmic(8, 100)`.
        folder: where the checkpoints go.
        part: the attribute of the LightningModule that holds the model; None saves the whole module.

    Raises:
        ImportError: there is no Lightning.
    """
    schedule, root = frozenset(steps), Path(folder)

    class SaveOn(lightning().Callback):  # type: ignore[misc]  # untyped base
        """Saves at chosen optimiser steps."""

        def __init__(self) -> None:
            self.saved = -1

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.saved = trainer.global_step - 1
            if trainer.global_step == 0:
                self.save(trainer, pl_module)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
            if any(self.saved < step <= trainer.global_step for step in schedule):
                self.save(trainer, pl_module)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self.save(trainer, pl_module)

        def save(self, trainer: Any, pl_module: Any) -> None:
            """Save this step, unless it is saved already."""
            step = trainer.global_step
            if trainer.is_global_zero and step > self.saved:
                save_checkpoint(part_of(pl_module, part), root, step)
            self.saved = step

    return SaveOn()


def part_of(module: Any, part: str | None) -> Any:
    """Return the attribute of a LightningModule that holds the model; None for the module itself."""
    return getattr(module, part) if part else module


def lightning() -> Any:
    """Import Lightning under whichever of its names is there."""
    for name in LIGHTNING:
        if find_spec(name.split(".")[0]):
            return import_module(name)
    raise ImportError("there is no Lightning: `pip install 'stagewise[lightning]'`")


def save_checkpoint(model: Any, folder: Path, step: int) -> None:
    """Write the folder `checkpoint-N` of a step into another one, with whatever opens it again."""
    write_folder(folder / f"checkpoint-{step}", lambda partial: _save(model, partial, step))


def _save(model: Any, folder: Path, step: int) -> None:
    from safetensors.torch import save_file, save_model

    if hasattr(model, "hook_dict"):  # also of a bridge, whose `save_pretrained` is that of the model inside
        save_file(models.weights(model), folder / WHOLE[0])
        architecture = models.described(model)
        (folder / CONFIG).write_text(json.dumps(architecture.huggingface or architecture.config), encoding="utf8")
    elif hasattr(model, "save_pretrained"):
        model.save_pretrained(folder)
    else:
        save_model(model, str(folder / WHOLE[0]))
    (folder / TRAINER).write_text(json.dumps({"global_step": step}), encoding="utf8")
