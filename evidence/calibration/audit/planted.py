"""A series into which faults are planted: its files, and which of its weights are which."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from stagewise import models

State = dict[str, Tensor]


class Inapplicable(Exception):  # noqa: N818
    """The series has no such weight."""


class Planted:
    """The files of a series, whose weights are read and written in the form that they have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = [*folder.glob("checkpoint-*"), *folder.glob("model_*.pt"), *folder.glob("checkpoints/step-*")]
        self.paths = {int(re.findall(r"\d+", path.name)[0]): path for path in files}
        self.steps = sorted(self.paths)

    def file(self, step: int) -> Path:
        """Where the weights of a step are."""
        path = self.paths[step]
        return path / "model.safetensors" if path.is_dir() else path

    def load(self, step: int) -> State:
        path = self.file(step)
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        loaded = torch.load(path, weights_only=True)
        return dict(loaded.get("model", loaded))

    def save(self, step: int, state: State) -> None:
        state = {name: weight.clone().contiguous() for name, weight in state.items()}
        path = self.file(step)
        if path.suffix == ".safetensors":
            save_file(state, path)
        else:
            wrapped = "model" in (loaded := torch.load(path, weights_only=True))
            torch.save({**loaded, "model": state} if wrapped else state, path)

    def change(self, step: int, change: Callable[[str, Tensor], Tensor | None]) -> None:
        """Replace some weights of a step."""
        state = self.load(step)
        new = {name: change(name, weight) for name, weight in state.items()}
        if all(value is None or torch.equal(value, state[name]) for name, value in new.items()):
            raise Inapplicable
        self.save(step, {name: state[name] if value is None else value for name, value in new.items()})


Corruption = Callable[[Planted, int, Planted, torch.Generator], Iterable[int]]
"""Plants a fault at a step, given another run of the series; returns the steps of which one must be named."""


def is_weight(weight: Tensor) -> bool:
    return weight.is_floating_point() and weight.numel() > 8 and bool(weight.isfinite().all())


def is_gain(name: str, weight: Tensor) -> bool:
    return weight.ndim == 1 and ("ln" in name or "norm" in name) and name.endswith(("weight", ".w"))


def pick(planted: Planted, step: int, chosen: Callable[[str, Tensor], bool], generator: torch.Generator) -> str:
    names = [name for name, weight in planted.load(step).items() if is_weight(weight) and chosen(name, weight)]
    if not names:
        raise Inapplicable
    return names[int(torch.randint(len(names), (1,), generator=generator))]


def neighbour(planted: Planted, step: int) -> int:
    return planted.steps[planted.steps.index(step) - 1]


def is_square(name: str, weight: Tensor) -> bool:
    return weight.ndim == 2 and weight.shape[0] == weight.shape[1]


def is_matrix(name: str, weight: Tensor) -> bool:
    buffer = name.endswith(models.CONSTANTS)
    return (
        weight.ndim >= 2
        and weight.numel() >= 100
        and "pos" not in name
        and not buffer
        and not bool((weight == 0).all())
    )


def is_embedding(name: str, weight: Tensor) -> bool:
    return "W_E" in name or "wte" in name or "embed_in" in name or "embed_tokens" in name


def is_of_heads(name: str, weight: Tensor) -> bool:
    return re.search(r"W_[QKVO]|q_proj|k_proj|v_proj|query_key_value|c_attn", name) is not None and weight.ndim > 1
