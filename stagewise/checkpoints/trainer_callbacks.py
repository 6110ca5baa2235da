"""A callback with which transformers' Trainer saves on a schedule; checkpoints of models in training loops."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stagewise import models
from stagewise.checkpoints._architectures import CONFIG
from stagewise.checkpoints._weight_names import WHOLE
from stagewise.checkpoints._writing import write_folder
from stagewise.checkpoints.sources import TRAINER


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


def save_checkpoint(model: Any, folder: Path, step: int) -> None:
    """Write the folder `checkpoint-N` of a step into another one, with whatever opens it again."""
    write_folder(folder / f"checkpoint-{step}", lambda partial: _save(model, partial, step))


def _save(model: Any, folder: Path, step: int) -> None:
    from safetensors.torch import save_file

    if hasattr(model, "hook_dict"):  # also of a bridge, whose `save_pretrained` is that of the model inside
        save_file(models.weights(model), folder / WHOLE[0])
        architecture = models.described(model)
        (folder / CONFIG).write_text(json.dumps(architecture.huggingface or architecture.config), encoding="utf8")
    else:
        model.save_pretrained(folder)
    (folder / TRAINER).write_text(json.dumps({"global_step": step}), encoding="utf8")
