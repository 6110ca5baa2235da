"""What peft writes: adapters beside their base, merged, and with modules that are trained whole."""

import copy
import functools
from pathlib import Path
from typing import Any

import torch
from torch import nn

from evidence.saved_series.folders import pretrained
from evidence.saved_series.models import Model, training
from evidence.saved_series.trainers import SAVED, trained_by_trainer
from evidence.saved_series.way import Way

TARGETS = {"gpt2": ["c_attn"], "llama": ["q_proj", "v_proj"], "gpt_neox": ["query_key_value"]}
SQUARE = {"gpt2": ["c_proj"], "llama": ["o_proj", "down_proj"], "gpt_neox": ["dense", "dense_4h_to_h"]}
HEADS = {"gpt2": "lm_head", "llama": "lm_head", "gpt_neox": "embed_out"}
BASE = "base"
RUN = "run"


def adapted(model: Model, folder: Path, targets: Any = TARGETS, **how: Any) -> Any:
    """Save the base, and return it with adapters that are drawn at random, not zero as peft begins."""
    from peft import LoraConfig, get_peft_model

    model.save_pretrained(folder / BASE)
    kind = model.config.model_type
    if how.pop("head", False):
        how["modules_to_save"] = [HEADS[kind]]
    how.setdefault("init_lora_weights", False)
    config = LoraConfig(r=2, lora_alpha=8, target_modules=targets[kind], fan_in_fan_out=kind == "gpt2", **how)
    return get_peft_model(model, config)


def _by_trainer(model: Model, folder: Path, **how: Any) -> None:
    trained_by_trainer(adapted(model, folder, **how), folder / RUN)


def _by_loop(model: Model, folder: Path, **how: Any) -> None:
    with_adapters = adapted(model, folder, **how)
    for step in training(with_adapters):
        with_adapters.save_pretrained(folder / RUN / f"checkpoint-{step}")


def _merged(model: Model, folder: Path) -> None:
    with_adapters = adapted(model, folder)
    for step in training(with_adapters):
        copy.deepcopy(with_adapters).merge_and_unload().save_pretrained(folder / RUN / f"checkpoint-{step}")


def _reload(folder: Path, step: int, model: Model) -> nn.Module:
    """Load the base by transformers, and the adapters by peft, without merging."""
    from peft import PeftModel

    base = type(model).from_pretrained(folder / BASE, dtype=torch.float32)
    found: nn.Module = PeftModel.from_pretrained(base, folder / RUN / f"checkpoint-{step}")
    return found


def _reload_merged(folder: Path, step: int, model: Model) -> Model:
    return pretrained(folder / RUN, step, model)


def _base_given(folder: Path, model: Model) -> dict[str, Any]:
    return {"base": folder / BASE}


def ways() -> list[Way]:
    """Return what peft writes."""

    def of_loop(name: str, **how: Any) -> Way:
        return Way(name, "peft", functools.partial(_by_loop, **how), _reload, RUN, options=_base_given)

    return [
        Way("adapters, by Trainer", "peft", _by_trainer, _reload, RUN, SAVED, options=_base_given),
        of_loop("adapters, by `save_pretrained`"),
        of_loop("adapters of the square output projections", targets=SQUARE),
        of_loop("adapters scaled by rank (`use_rslora`)", use_rslora=True),
        of_loop("adapters and the unembedding, by `modules_to_save`", head=True),
        of_loop("DoRA", use_dora=True),
        Way("merged adapters", "peft", _merged, _reload_merged, RUN),
    ]
