"""Weights on disk: which files hold them, how they are read, and what they hash to."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

State = Mapping[str, Tensor]

WHOLE = ("model.safetensors", "pytorch_model.bin")
INDEX = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
ENDINGS = (".safetensors", ".pt", ".pth", ".bin")
WRAPPERS = ("model", "state_dict", "model_state_dict", "module")
"""Keys under which training scripts put the weights beside the optimiser's state."""


def chosen_files(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that hold a checkpoint's weights; an index stands for its shards. Empty if there are none.

    >>> chosen_files(["config.json", "pytorch_model.bin", "model.safetensors"])
    ('model.safetensors',)
    """
    there = set(names)
    for whole, index in zip(WHOLE, INDEX, strict=True):
        if whole in there:
            return (whole,)
        if index in there:
            stem, ending = index.removesuffix(".index.json").rsplit(".", 1)
            return tuple(sorted(n for n in there if n.startswith(f"{stem}-") and n.endswith(f".{ending}")))
    return ()


def files_of(folder: Path) -> tuple[Path, ...]:
    """Return the weight files of a checkpoint's folder.

    Raises:
        FileNotFoundError: it holds none, or the index names a shard that is not there.
        ValueError: the index is damaged.
    """
    names = chosen_files(path.name for path in folder.iterdir())
    if not names:
        raise FileNotFoundError(f"{folder} holds no weights: expected one of {', '.join(WHOLE + INDEX)}")
    for index in INDEX if names[0] not in WHOLE else ():
        if (folder / index).exists() and (missing := sorted(_indexed(folder / index) - set(names))):
            raise FileNotFoundError(f"{folder / index} names {missing[0]}, which is not there")
    return tuple(folder / name for name in names)


def _indexed(index: Path) -> set[str]:
    try:
        return set(json.loads(index.read_text(encoding="utf8"))["weight_map"].values())
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as reason:
        raise ValueError(f"{index} is no index of shards ({reason}). Restore it, or leave its step out") from reason


def missing_shard(names: Iterable[str]) -> str | None:
    """Return the first shard that the others' numbers promise and that is not among them.

    >>> missing_shard(["model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"])
    'model-00002-of-00003.safetensors'
    """
    there = set(names)
    for name in sorted(there):
        if match := re.fullmatch(r"(.+-)(\d+)-of-(\d+)(\..+)", name):
            stem, number, last, ending = match.groups()
            promised = (f"{stem}{k:0{len(number)}}-of-{last}{ending}" for k in range(1, int(last) + 1))
            return next((shard for shard in promised if shard not in there), None)
    return None


def read(paths: Iterable[Path]) -> dict[str, Tensor]:
    """Read the weights of one checkpoint from its files, on the CPU. Pickled files run no code.

    Raises:
        FileNotFoundError: a file is gone.
        ValueError: a file is truncated or damaged, or holds no weights by name; the message names it.
    """
    state: dict[str, Tensor] = {}
    for path in paths:
        state |= _read_one(path)
    return state


def _read_one(path: Path) -> dict[str, Tensor]:
    from pickle import UnpicklingError

    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            loaded: Any = load_file(path)
        else:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is gone: it was there when the series was opened") from None
    except (SafetensorError, RuntimeError, UnpicklingError, EOFError, ValueError) as reason:
        why = (str(reason).splitlines() or [type(reason).__name__])[0]
        raise ValueError(
            f"{path} is truncated or damaged ({path.stat().st_size} bytes: {why}). Restore it, or leave its step out"
        ) from reason
    for key in WRAPPERS:
        if isinstance(loaded, Mapping) and isinstance(loaded.get(key), Mapping):
            loaded = loaded[key]
    if not isinstance(loaded, Mapping) or not loaded or not all(isinstance(x, Tensor) for x in loaded.values()):
        raise ValueError(f"{path} holds no weights by name: expected tensors, alone or under {', '.join(WRAPPERS)}")
    return dict(loaded)


def file_digest(paths: Iterable[Path]) -> str:
    """Return the hash of the files' bytes."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(bytes.fromhex(file_sha256(path)))
    return digest.hexdigest()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, as the hub gives it."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def state_digest(state: State) -> str:
    """Return the hash of the tensors' names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(state):
        flat = state[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(repr((name, state[name].dtype, tuple(state[name].shape))).encode() + flat.numpy().tobytes())
    return digest.hexdigest()
