"""What libraries write as folders of a model: transformers, huggingface_hub, torch.distributed.checkpoint, averages."""

import copy
import dataclasses
import functools
import importlib
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel

from evidence.saved_series.models import Model, training, untrained
from evidence.saved_series.plain import loaded, tied, untied
from evidence.saved_series.way import Save, Way, config_given, each

dcp: Any = importlib.import_module("torch.distributed.checkpoint")  # whose own exports are not marked as such
SHARDS = "20KB"


def pretrained(folder: Path, step: int, model: Model, **how: Any) -> Model:
    """Load a folder as transformers does, in float32."""
    return type(model).from_pretrained(folder / f"checkpoint-{step}", dtype=torch.float32, **how)


def of_transformers(name: str, make: Any = untrained, load: dict[str, Any] | None = None, **how: Any) -> Way:
    """Return the way of `save_pretrained`, which takes `how`; `load` is for `from_pretrained`."""

    def save(model: Model, folder: Path, step: int) -> None:
        model.save_pretrained(folder / f"checkpoint-{step}", **how)

    reload = functools.partial(pretrained, **(load or {}))
    return Way(name, "transformers, save_pretrained", each(save), reload, make=make)


def _of_type(kind: torch.dtype) -> Save:
    def save(model: Model, folder: Path, step: int) -> None:
        copy.deepcopy(model).to(kind).save_pretrained(folder / f"checkpoint-{step}")

    return save


def _hub(**how: Any) -> Save:
    def save(model: Model, folder: Path, step: int) -> None:
        from huggingface_hub import save_torch_model

        model.config.save_pretrained(folder / f"checkpoint-{step}")
        save_torch_model(model, folder / f"checkpoint-{step}", **how)

    return save


def _bin(model: Model, folder: Path, step: int) -> None:
    model.config.save_pretrained(folder / f"checkpoint-{step}")
    torch.save(model.state_dict(), folder / f"checkpoint-{step}" / "pytorch_model.bin")


def _dcp(key: str | None, writer: Any = None) -> Save:
    def save(model: Model, folder: Path, step: int) -> None:
        # HuggingFaceStorageWriter refuses tensors that share their memory, as those of a tied model
        state = {name: each.clone() for name, each in model.state_dict().items()}
        place = folder / f"step-{step}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            storage: dict[str, Any] = {"storage_writer": writer(str(place))} if writer else {"checkpoint_id": place}
            dcp.save({key: state} if key else state, **storage)

    return save


def _dcp_load(folder: Path, step: int, model: Model, key: str | None = None, reader: Any = None) -> Model:
    state, place = model.state_dict(), folder / f"step-{step}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        storage: dict[str, Any] = {"storage_reader": reader(str(place))} if reader else {"checkpoint_id": place}
        dcp.load({key: state} if key else state, **storage)
    return loaded(state, model)


def _dcp_as_file(model: Model, folder: Path, step: int) -> None:
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    _dcp("model")(model, folder / "parts", step)
    dcp_to_torch_save(folder / "parts" / f"step-{step}", folder / f"step-{step}.pt")


def _averaging(model: Model, folder: Path, beside: bool) -> None:
    averaged = AveragedModel(model)
    for step in training(model):
        averaged.update_parameters(model)
        state = averaged.state_dict()
        torch.save({"model": model.state_dict(), "ema": state} if beside else state, folder / f"step{step}.pt")


def _averages(folder: Path, step: int, model: Model) -> Model:
    averaged = AveragedModel(model)
    averaged.load_state_dict(torch.load(folder / f"step{step}.pt"))
    return averaged.module


def _file(name: str, folder: Path, step: int, model: Model) -> Model:
    return loaded(torch.load(folder / name.format(step))["model"], model)


def ways() -> list[Way]:
    """Return what these libraries write."""
    hub, distributed, averages = "huggingface_hub", "torch.distributed.checkpoint", "torch.optim.swa_utils"
    hugging = dcp.HuggingFaceStorageWriter, dcp.HuggingFaceStorageReader
    bare_dcp = functools.partial(_dcp_load, key=None)
    return [
        of_transformers("one file"),
        of_transformers("shards with an index", max_shard_size=SHARDS),
        of_transformers("a variant, `model.fp16.safetensors`", variant="fp16", load={"variant": "fp16"}),
        of_transformers("a tied model", make=tied),
        of_transformers("an untied model whose config says tied", make=untied),
        dataclasses.replace(of_transformers("bfloat16"), write=each(_of_type(torch.bfloat16))),
        dataclasses.replace(of_transformers("float16"), write=each(_of_type(torch.float16))),
        Way("`pytorch_model.bin` beside a config", "torch.save", each(_bin), pretrained),
        Way("one file, by `save_torch_model`", hub, each(_hub()), pretrained),
        Way("shards of safetensors", hub, each(_hub(max_shard_size=SHARDS)), pretrained),
        Way("shards of torch.save", hub, each(_hub(max_shard_size=SHARDS, safe_serialization=False)), pretrained),
        Way("a folder, keys before the names", distributed, each(_dcp("model")),
            functools.partial(_dcp_load, key="model"), options=config_given),
        Way("a folder, bare names", distributed, each(_dcp(None)), bare_dcp, options=config_given),
        Way("a folder, by HuggingFaceStorageWriter", distributed, each(_dcp(None, hugging[0])),
            functools.partial(_dcp_load, reader=hugging[1]), options=config_given),
        Way("a folder made a file, by `dcp_to_torch_save`", distributed, each(_dcp_as_file),
            functools.partial(_file, "step-{}.pt"), options=config_given),
        Way("AveragedModel", averages, functools.partial(_averaging, beside=False), _averages, options=config_given),
        Way("AveragedModel under `ema`, the model under `model`", averages, functools.partial(_averaging, beside=True),
            functools.partial(_file, "step{}.pt"), options=config_given),
    ]  # fmt: skip
