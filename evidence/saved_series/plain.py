"""What scripts write with torch.save and safetensors: a file for each step, or one for all."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import nn

from evidence.saved_series.models import STEPS, Model, training, untrained
from evidence.saved_series.way import Way, config_given, each

Pack = Callable[[Model, int], Any]
Unpack = Callable[[Any, Model], Model]


def loaded(state: Any, model: Model) -> Model:
    """Load a state dict as it is."""
    model.load_state_dict(state)
    return model


def of_key(key: str, **beside: Any) -> tuple[Pack, Unpack]:
    """Return how a state dict is saved under a key, with others beside it, and loaded."""
    return (
        lambda model, step: {key: model.state_dict(), **beside, "step": step},
        lambda saved, model: loaded(saved[key], model),
    )


def wrapped(wrap: Callable[[Model], nn.Module], key: str | None = None) -> tuple[Pack, Unpack]:
    """Return how the state dict of a wrapped model is saved, bare or under a key, and loaded into another one."""

    def unpack(saved: Any, model: Model) -> Model:
        loaded(saved[key] if key else saved, wrap(model))
        return model

    return lambda model, step: {key: wrap(model).state_dict()} if key else wrap(model).state_dict(), unpack


def compiled(model: Model) -> Any:
    """Return a compiled model; nothing is compiled before its first pass."""
    return torch.compile(model)


def of_type(kind: torch.dtype) -> tuple[Pack, Unpack]:
    """Return how weights are rounded when they are saved, and loaded."""
    return lambda model, step: {name: each.to(kind) for name, each in model.state_dict().items()}, loaded


def without_head(model: Model, step: int) -> dict[str, Any]:
    """Return the weights without the unembedding that is the embedding."""
    heads = {f"{name}.weight" for name, each in model.named_modules() if each is model.get_output_embeddings()}
    return {name: each for name, each in model.state_dict().items() if name not in heads}


def tied_again(saved: Any, model: Model) -> Model:
    """Load weights without the unembedding, which the model has from its embedding."""
    model.load_state_dict(saved, strict=False)
    model.tie_weights()
    return model


def untied(family: str) -> Model:
    """Return a model whose config says that it is tied, and whose script has given it an unembedding of its own."""
    model = tied(family)
    head = model.get_output_embeddings()
    head.weight = nn.Parameter(0.1 * torch.randn(head.weight.shape))
    return model


tied = functools.partial(untrained, tie_word_embeddings=True)
BARE: tuple[Pack, Unpack] = lambda model, step: model.state_dict(), loaded
COMPILED = wrapped(compiled)
PARALLEL = wrapped(nn.DataParallel)
OPTIMISER = {"optimizer": {"state": {}, "param_groups": []}, "loss": 2.5}


def torch_file(name: str, form: tuple[Pack, Unpack], file: str = "step_{}.pt", **how: Any) -> Way:
    """Return the way of a script that saves a file for each step."""
    pack, unpack = form

    def save(model: Model, folder: Path, step: int) -> None:
        torch.save(pack(model, step), folder / file.format(step), **how)

    def load(folder: Path, step: int, model: Model) -> Model:
        return unpack(torch.load(folder / file.format(step), weights_only=False), model)

    return Way(name, "torch.save", each(save), load, options=config_given)


def one_file(name: str, kind: Callable[[dict[int, Any]], Any]) -> Way:
    """Return the way of a script that keeps all checkpoints in a list or a dict and saves it once."""

    def write(model: Model, folder: Path) -> None:
        kept = {step: {name: each.clone() for name, each in model.state_dict().items()} for step in training(model)}
        torch.save(kind(kept), folder / "all.pt")

    def load(folder: Path, step: int, model: Model) -> Model:
        saved = torch.load(folder / "all.pt", weights_only=False)
        found = saved[STEPS.index(step)] if isinstance(saved, list) else saved[step]
        return loaded(found[1] if isinstance(found, tuple) else found, model)

    return Way(name, "torch.save", write, load, place="all.pt", options=config_given)


def _save_file(model: Model, folder: Path, step: int) -> None:
    state = {name: each.clone().contiguous() for name, each in model.state_dict().items()}
    save_file(state, folder / f"model-step{step}.safetensors")


def _load_file(folder: Path, step: int, model: Model) -> Model:
    return loaded(load_file(folder / f"model-step{step}.safetensors"), model)


def _save_model(model: Model, folder: Path, step: int) -> None:
    save_model(model, str(folder / f"{step}.safetensors"))


def _load_model(folder: Path, step: int, model: Model) -> Model:
    load_model(model, folder / f"{step}.safetensors")
    return model


def ways() -> list[Way]:
    """Return what scripts write."""
    bare = torch_file("a state dict", BARE)
    save_tied = torch_file("a state dict without the tied unembedding", (without_head, tied_again))
    return [
        bare,
        torch_file("a state dict under `model`, beside an optimiser", of_key("model", **OPTIMISER), "ckpt_{:06d}.pt"),
        torch_file("a state dict under `state_dict`", of_key("state_dict", epoch=1), "epoch1_step={}.pth"),
        torch_file(
            "a state dict under `model_state_dict`", of_key("model_state_dict", **OPTIMISER), "iter{}_loss2.5.pt"
        ),
        torch_file("a state dict under `module`", of_key("module"), "global_step{}.pt"),
        torch_file("a state dict of DataParallel", PARALLEL, "{}.pth"),
        torch_file("a state dict of a compiled model", COMPILED, "update-{}.bin"),
        torch_file(
            "a compiled model in DataParallel, under `model`",
            wrapped(lambda model: nn.DataParallel(compiled(model)), "model"),
        ),
        torch_file("a whole pickled model", (lambda model, step: model, lambda saved, model: saved)),
        torch_file("a state dict in the format before zip", BARE, _use_new_zipfile_serialization=False),
        torch_file("a state dict in bfloat16", of_type(torch.bfloat16)),
        torch_file("a state dict in float16", of_type(torch.float16)),
        dataclasses.replace(save_tied, make=tied),
        dataclasses.replace(torch_file("a state dict of a tied model", BARE), make=tied),
        dataclasses.replace(torch_file("a state dict of an untied model whose config says tied", BARE), make=untied),
        one_file("one file with a list of (step, state dict)", lambda kept: [*kept.items()]),
        one_file("one file with a dict from steps to state dicts", lambda kept: kept),
        Way("a file for each step, by `save_file`", "safetensors", each(_save_file), _load_file, options=config_given),
        Way(
            "a tied model, by `save_model`",
            "safetensors",
            each(_save_model),
            _load_model,
            make=tied,
            options=config_given,
        ),
    ]
