"""Weights on disk: which files hold them, and the one loader of what is in them."""

import contextlib
import errno
import os
import re
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

import torch
from torch import Tensor

from stagewise.checkpoints import checksums
from stagewise.checkpoints.digest import check_whole
from stagewise.checkpoints.json_files import read_json
from stagewise.checkpoints.names import is_step
from stagewise.checkpoints.nanogpt import as_gpt2, config_of, is_nanogpt
from stagewise.checkpoints.pickles import NotOnlyWeightsError, refusal, spoilt_record
from stagewise.fields import MEMORY
from stagewise.models import without_constants

State = Mapping[str, Tensor]

WHOLE = ("model.safetensors", "pytorch_model.bin")
INDEX = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
ENDINGS = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
WRAPPERS = ("model", "state_dict", "model_state_dict", "module")
"""Keys under which training scripts put the weights beside the optimiser's state."""

TRAINING = re.compile(
    r"(?i)(optim|optims|optimi[sz]er|(lr_?)?scheduler|sched|(grad_?)?scaler|rng|random_states|sampler|training_args)"
    r"(?![a-z])"
)
"""What the names of files begin with that hold the state of a training beside its weights."""

ADAPTER = "adapter_config.json"
"""What peft writes beside an adapter."""

STEPS = ("global_step", "step", "iteration", "iter", "iter_num", "steps")
"""Keys under which they put the step."""

WRAPPED = "module."
"""What data parallelism puts before the names of all weights."""

INSIDE = re.compile(r"(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
"""What compilation, sharding and recomputed activations put into names, at any depth."""

AT_THE_TOP = ("unembed.W_U", "unembed.weight", "lm_head.weight", "embed_out.weight")
"""Names that end a model's own: what stands before one of them is the attribute of a module that holds the model."""

LIGHTNING = "pytorch-lightning_version"
"""The key that tells a checkpoint of Lightning, whose names begin with the attribute that holds the model."""

UNREADABLE = (
    *(RuntimeError, UnpicklingError, EOFError, ValueError, LookupError),
    *(AssertionError, AttributeError, TypeError, OverflowError, MemoryError, struct.error, zipfile.BadZipFile),
)
"""What `torch.load` raises for a damaged file, depending on where it is truncated; the old format raises more kinds."""

RESTORE = "Restore it, or leave its step out"


def chosen_files(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that hold a checkpoint's weights; an index stands for its shards. Empty if there are none.

    >>> chosen_files(["config.json", "pytorch_model.bin", "model.safetensors"])
    ('model.safetensors',)
    """
    unique = set(names)
    for whole, index in zip(WHOLE, INDEX, strict=True):
        if whole in unique:
            return (whole,)
        if index in unique:
            stem, ending = index.removesuffix(".index.json").rsplit(".", 1)
            return tuple(sorted(n for n in unique if n.startswith(f"{stem}-") and n.endswith(f".{ending}")))
    return ()


def files_of(folder: Path) -> tuple[Path, ...]:
    """Return the weight files of a checkpoint's folder: those with the names that Hugging Face gives, or a single one.

    Raises:
        FileNotFoundError: it holds none, or the index names a missing shard.
        ValueError: the index is damaged, or it holds an adapter.
    """
    names = chosen_files(path.name for path in folder.iterdir())
    if not names and (folder / ADAPTER).exists():
        raise ValueError(
            f"{folder} holds an adapter, not the weights of a model: save `model.merge_and_unload()` in its place"
        )
    if not names:
        single = [path for path in folder.iterdir() if path.suffix in ENDINGS and not TRAINING.match(path.name)]
        if len(single) == 1 and not missing_shard([single[0].name]):
            return (single[0],)
        raise FileNotFoundError(f"{folder} holds no weights: expected one of {', '.join(WHOLE + INDEX)}, or one file")
    if names[0] in WHOLE:
        return tuple(folder / name for name in names)
    for index in INDEX:
        if (folder / index).exists() and (missing := sorted(_indexed(folder / index) - set(names))):
            raise FileNotFoundError(f"{folder / index} names {missing[0]}, which is not there")
    return tuple(folder / name for name in names)


def _indexed(index: Path) -> set[str]:
    shards = read_json(index, RESTORE).get("weight_map")
    if not isinstance(shards, dict) or not all(isinstance(name, str) for name in shards.values()):
        raise ValueError(f"{index} is no index of shards: it has no weight_map of names. {RESTORE}")
    if outside := [name for name in shards.values() if name in ("", "..") or Path(name).name != name]:
        raise ValueError(f"{index} names {outside[0]!r:.120}, which is no file beside it: it was not read. {RESTORE}")
    return set(shards.values())


def missing_shard(names: Iterable[str]) -> str | None:
    """Return the first shard that is missing from the numbering of the others.

    >>> missing_shard(["model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"])
    'model-00002-of-00003.safetensors'
    """
    unique = set(names)
    for name in sorted(unique):
        if match := re.fullmatch(r"(.+-)(\d+)-of-(\d+)(\..+)", name):
            stem, number, last, ending = match.groups()
            expected = (f"{stem}{k:0{len(number)}}-of-{last}{ending}" for k in range(1, int(last) + 1))
            return next((shard for shard in expected if shard not in unique), None)
    return None


class Contents(NamedTuple):
    """What the files of one checkpoint hold.

    Args:
        weights: by name.
        step: that was saved with them, if one was.
    """

    weights: dict[str, Tensor]
    step: int | None = None


def read(paths: Iterable[Path]) -> Contents:
    """Read the weights of one checkpoint from its files, on the CPU. Pickled files run no code.

    Raises:
        FileNotFoundError: a file is gone.
        ValueError: a file is truncated or damaged, or holds no weights by name, or more than weights; the message names
            it.
    """
    state: dict[str, Tensor] = {}
    steps: list[int] = []
    for path in paths:
        weights, step = _read_one(path)
        state |= weights
        steps += [] if step is None else [step]
    return Contents(state, steps[0] if steps else None)


def _read_one(path: Path) -> Contents:
    whole = load_file(path)
    loaded = _by_name(whole)
    if loaded is None:
        held = f"; it holds {', '.join(map(str, list(whole)[:8]))}" if isinstance(whole, Mapping) and whole else ""
        raise ValueError(
            f"{path} holds no weights by name: expected tensors, alone or under {', '.join(WRAPPERS)}, or as the only "
            f"ones under another key{held}"
        )
    for name, weight in loaded.items():
        if kind := _unusable(weight):
            raise ValueError(f"{path} holds {name} {kind}: convert it to float32. Or leave its step out")
    steps = [whole[key] for key in STEPS if key in whole and is_step(whole[key])]
    weights = _unwrapped(loaded, LIGHTNING in whole)
    return Contents(as_gpt2(weights) if is_nanogpt(weights) else weights, steps[0] if steps else None)


def _by_name(loaded: Any) -> State | None:
    """Return the weights of what a training script saved; None where there are none, or several under other keys."""
    for key in WRAPPERS:
        if isinstance(loaded, Mapping) and isinstance(loaded.get(key), Mapping):
            loaded = loaded[key]
    if _are_weights(loaded):
        return loaded  # type: ignore[no-any-return]
    held = [each for each in loaded.values() if _are_weights(each)] if isinstance(loaded, Mapping) else []
    return held[0] if len(held) == 1 else None


def _are_weights(loaded: Any) -> bool:
    return isinstance(loaded, Mapping) and bool(loaded) and all(isinstance(each, Tensor) for each in loaded.values())


def config_in(path: Path) -> dict[str, Any] | None:
    """Read the config that a training script saved in the file of the weights itself, None where it saved none.

    Raises:
        ValueError: the file is damaged, or its config is of a model that is not known.
    """
    return None if path.suffix == ".safetensors" else config_of(load_file(path), path)


def _unusable(weight: Tensor) -> str:
    """Return in which form a weight is that nothing can be computed with as it is; empty if it is in none."""
    if weight.is_meta:
        return "without its numbers, on torch's meta device"
    if weight.is_quantized or weight.layout != torch.strided:
        return "quantised" if weight.is_quantized else f"as a {str(weight.layout).removeprefix('torch.')} tensor"
    return f"as {weight.dtype}, two numbers a byte" if str(weight.dtype).startswith("torch.float4") else ""


def _unwrapped(state: Mapping[str, Tensor], by_lightning: bool) -> dict[str, Tensor]:
    """Return weights by the model's own names, without what its names share because of how it was trained.

    Where the module that held the model has weights of its own, as a loss may, these are left out.
    """
    state = {INSIDE.sub("", name): weight for name, weight in state.items()}
    beside = {name.removesuffix(top) for name in state for top in AT_THE_TOP if name.endswith(top)}
    if len(beside) == 1 and (prefix := next(iter(beside))).endswith("."):
        state = {name: weight for name, weight in state.items() if name.startswith(prefix)}
    while True:
        prefix = next(iter(state)).split(".")[0] + "."
        is_known = by_lightning or prefix == WRAPPED or any(prefix + name in state for name in AT_THE_TOP)
        if not is_known or not all(name.startswith(prefix) for name in state):
            return state
        state, by_lightning = {name.removeprefix(prefix): weight for name, weight in state.items()}, False


def not_finite(state: State) -> tuple[str, ...]:
    """Return the names of the weights that hold nan or infinity; a HookedTransformer's constant buffers may."""
    return tuple(
        name
        for name, weight in without_constants(state).items()
        if not bool((weight.float() if _is_float8(weight) else weight).isfinite().all())
    )


def _is_float8(weight: Tensor) -> bool:
    return weight.is_floating_point() and weight.element_size() == 1  # which torch cannot ask whether it is finite


class DoesNotFitError(ValueError):
    """A file, or what it holds, is larger than the memory of this machine."""


def load_file(path: Path, fix: str = RESTORE) -> Any:
    """Load what a .safetensors file or one of `torch.save` holds, on the CPU. Pickled files run no code.

    Args:
        path: the file.
        fix: advice for a damaged file; the end of the message.

    Raises:
        FileNotFoundError: the file is gone.
        ValueError: it is truncated or damaged, or does not fit into memory; the message names it.
        OSError: the system does not let it be read.
    """
    from safetensors import SafetensorError

    try:
        check_whole(path)
        if (size := path.stat().st_size) > MEMORY:
            raise DoesNotFitError(f"{path} has {size} bytes, and this machine memory for {MEMORY}: it is not loaded")
        checksums.check(path, fix)
        loaded = _loaded(path)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is gone: it was there when the series was opened") from None
    except (checksums.DamagedFile, DoesNotFitError):
        raise
    except (SafetensorError, OSError, *UNREADABLE) as reason:
        # A truncated zip archive makes torch seek before its start, which the system calls an invalid argument.
        if isinstance(reason, NotOnlyWeightsError) or (isinstance(reason, OSError) and reason.errno != errno.EINVAL):
            raise
        raise ValueError(
            f"{path} is truncated or damaged ({path.stat().st_size} bytes: {_why(reason)}). {fix}"
        ) from reason
    claimed = sum(each.numel() * each.element_size() for each in _tensors(loaded))
    if claimed > MEMORY:
        raise DoesNotFitError(
            f"{path} holds tensors that repeat what its {size} bytes hold: they would take {claimed} bytes, and this "
            f"machine has memory for {MEMORY}. Save them without `expand`, or leave its step out"
        )
    return loaded


def _tensors(loaded: Any) -> Iterator[Tensor]:
    """Yield the tensors of whatever a file holds that take memory, or would where they are computed with."""
    if isinstance(loaded, Tensor) and not loaded.is_meta and loaded.layout == torch.strided:
        yield loaded
    elif isinstance(loaded, Mapping | list | tuple):
        for each in loaded.values() if isinstance(loaded, Mapping) else loaded:
            yield from _tensors(each)


def _loaded(path: Path) -> Any:
    from safetensors.torch import load_file as load_safetensors

    if path.is_dir():  # which safetensors calls a missing device
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if path.suffix == ".safetensors":
        return load_safetensors(path)
    # Torch compares no checksums: a flipped bit would be another weight.
    if zipfile.is_zipfile(path) and (record := spoilt_record(path)):
        raise ValueError(f"the checksum of {record} does not agree")
    try:
        with _plain_objects():
            return torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError:
        if why := refusal(path):
            raise NotOnlyWeightsError(why) from None
        raise


@contextlib.contextmanager
def _plain_objects() -> Iterator[None]:
    """Allow what holds a script's settings beside the weights, and runs nothing."""
    from argparse import Namespace
    from pathlib import PosixPath, PurePosixPath, PureWindowsPath

    with torch.serialization.safe_globals([Namespace, PosixPath, PurePosixPath, PureWindowsPath]):
        yield


def _why(reason: BaseException) -> str:
    """Return the first line of a reason, without torch's advice to load the file all the same."""
    if isinstance(reason, UnpicklingError):
        return "no pickle of weights"
    return (str(reason).splitlines() or [type(reason).__name__])[0]
