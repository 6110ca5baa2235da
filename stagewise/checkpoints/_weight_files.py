"""Weights on disk: which files hold them, and the one loader of what is in them."""

import errno
import os
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

import torch
from torch import Tensor

from stagewise.checkpoints import _checksums as checksums
from stagewise.checkpoints import _formats as formats
from stagewise.checkpoints import _pickles as pickles
from stagewise.checkpoints import _weight_names as weight_names
from stagewise.checkpoints._digest import check_file
from stagewise.checkpoints._pickles import FSDP2_ADVICE, NotOnlyWeightsError, Stub, array_of
from stagewise.checkpoints._table_file import read_json
from stagewise.checkpoints._weight_names import INDEX, STEPS, WHOLE
from stagewise.checkpoints.names import ENDINGS, is_step
from stagewise.checkpoints.nanogpt import as_gpt2, config_of, is_nanogpt
from stagewise.config import line_of
from stagewise.fields import MEMORY
from stagewise.models import is_finite, without_constants

State = Mapping[str, Tensor]

WRAPPERS = ("model", "state_dict", "model_state_dict", "module")
"""Keys under which training scripts put the weights beside the optimiser's state."""

NAMED_SIZES = {"n_layers", "d_model", "n_ctx", "d_vocab"}
"""Fields by which the config of a HookedTransformer is known."""

WRAPPED = "module."
"""The prefix that data parallelism gives to the names of all weights."""

INSIDE = re.compile(r"(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
"""Parts that compilation, sharding and recomputed activations put into names, at any depth."""

AT_THE_TOP = ("unembed.W_U", "unembed.weight", "lm_head.weight", "embed_out.weight")
"""Names that end a model's own: what stands before one of them is the attribute of a module that holds the model."""

HEADS = re.compile(
    r"(?:^|\.)(?:v_head|value_head|val_head|value_function|critic|q_head|policy_head|reward_head|score|classifier"
    r"|lora_[A-Za-z_]+|lora_magnitude_vector|adapters?|prompt_encoder|prompt_embeddings)(?:\.|$)"
)
"""Names of weights that others put beside a model's own: heads for a value or a class, adapters, prompts."""

OPTIMISER = re.compile(r"optim|momentum|grad", re.IGNORECASE)
"""In the keys of an optimiser's state, which may have a tensor a weight too."""

DEQUANTISE = "take `weight.dequantize()` of each"

AVERAGED = {"n_averaged": "n_averaged (of torch's AveragedModel: the weights are averages, not those that are trained)"}
"""The counter of averages that stands beside their weights, in words."""

TRAIN_MODE = "train_mode"
"""The flag of a schedule-free optimiser: whether its model holds the weights that are trained, or their averages."""

BASE_LAYER = ".base_layer"
"""The part that peft puts into the names of weights that an adapter changes."""

LIGHTNING = "pytorch-lightning_version"
"""The key that tells a checkpoint of Lightning, whose names begin with the attribute that holds the model."""

PARTS = "they are the parts of several processes. Join them, as dcp's `consolidate_safetensors_files` does"
"""Advice where two files of a checkpoint hold one weight."""

RESTORE = "Restore it, or leave its step out"


def files_of(folder: Path) -> tuple[Path, ...]:
    """Return the weight files of a checkpoint's folder: those with Hugging Face's names, or a single one."""
    inside = [path.name for path in folder.iterdir()]
    names = weight_names.chosen_files(inside)
    if not names and formats.ADAPTER in inside:
        base = read_json(folder / formats.ADAPTER).get("base_model_name_or_path") or "NAME"
        raise formats.OtherFormError(
            f"{folder} holds an adapter, not the weights of a model: give the model that it adapts, --base {base}, in "
            "Python `base=`; or save `model.merge_and_unload()` in its place"
        )
    if not names:
        single = [name for name in inside if name.endswith(ENDINGS) and not weight_names.TRAINING.match(name)]
        parts = len(single) > 1 and all(re.search(r"-\d+-of-\d+\.", name) for name in single)  # without an index
        if (parts or len(single) == 1) and not weight_names.missing_shard(single) and not single[0].startswith("zero_"):
            return tuple(folder / name for name in sorted(single))
        below = [path.name for path in folder.glob("*/*")]
        why = weight_names.converter([*inside, *below]) or f"expected one of {', '.join(WHOLE + INDEX)}, or one file"
        raise FileNotFoundError(f"{folder} holds no weights that can be read: {why}")
    for index in INDEX if names[0] not in (*WHOLE, weight_names.SHARDS) else ():
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


class Contents(NamedTuple):
    """The contents of the files of one checkpoint; `aside` says in words what else there is and was not read."""

    weights: State
    step: int | None = None
    aside: tuple[str, ...] = ()


def read(paths: Sequence[Path], others: Iterable[str] = ()) -> Contents:
    """Read a checkpoint's weights from its files, on the CPU, and name `others` that are not read; no code runs."""
    state: dict[str, Tensor] = {}
    steps: list[int] = []
    aside: dict[str, None] = dict.fromkeys(others)
    for path in paths:
        saved = formats.read_shards(path.parent) if path.name == weight_names.SHARDS else load_file(path, inertly=True)
        contents = contents_of(saved, path)
        for name in state.keys() & contents.weights.keys():
            if not torch.equal(state[name], contents.weights[name]):
                raise ValueError(f"{path} holds {name}, which another file of {path.parent} holds too: {PARTS}")
        state |= contents.weights
        steps += [] if contents.step is None else [contents.step]
        aside |= dict.fromkeys(contents.aside)
    aside |= dict.fromkeys(filter(None, map(_schedule_free, (*paths, *sorted(path.parent.glob("optimizer.*"))))))
    if aside:
        warnings.warn(f"left aside beside the weights: {', '.join(aside)}", stacklevel=3)
    return Contents(state, steps[0] if steps else None, tuple(aside))


def _schedule_free(path: Path) -> str:
    """Return in words which of its two sets of weights a schedule-free optimiser left in the model."""
    if path.suffix == ".safetensors" or (training := pickles.flag_in(path, TRAIN_MODE)) is None:
        return ""
    which = "those that are trained, not their averages" if training else "averages, not those that are trained"
    return f"{TRAIN_MODE} {training} (schedule-free: the weights are {which})"


def contents_of(saved: Any, path: Path) -> Contents:
    """Return the weights in what a training script saved, and the step beside them; the path is for messages."""
    loaded = weights_by_name(saved)
    if loaded is None:
        kind = f"; it is a {saved.name}" if isinstance(saved, Stub) else ""
        held = f"; it holds {', '.join(map(str, list(saved)[:8]))}" if isinstance(saved, Mapping) and saved else kind
        raise formats.OtherFormError(
            f"{path} holds no weights by name: expected tensors, alone or under {', '.join(WRAPPERS)}, or as the only "
            f"ones under another key{held}"
        )
    weights = {str(name): weight for name, weight in loaded.items() if isinstance(weight, Tensor)}
    for name, weight in weights.items():
        if kind := unusable(weight):
            raise formats.OtherFormError(f"{path} holds {name} {kind}. Or leave its step out")
    beside = saved if isinstance(saved, Mapping) else {}
    counted = {key: beside[key].item() for key in STEPS if isinstance(beside.get(key), Tensor) and not beside[key].ndim}
    beside, weights = {**beside, **counted}, {k: each.detach() for k, each in weights.items() if k not in counted}
    steps = [beside[key] for key in STEPS if key in beside and is_step(beside[key])]
    weights, heads = _unwrapped(weights, LIGHTNING in beside)
    heads += [name for name in weights if HEADS.search(name)] if len(weights) > 1 else []
    if weights and all(name in heads for name in weights):
        alone = f"holds adapters or heads alone ({heads[-1]})"
        raise formats.OtherFormError(f"{path} {alone}: merge them into the model that they belong to, and save that")
    weights = {name.replace(BASE_LAYER, ""): weight for name, weight in weights.items() if name not in heads}
    objects = {**beside, **loaded} if loaded is not saved else loaded
    aside = [f"{key} ({kind})" for key, value in objects.items() if (kind := _object_in(value))]
    aside += [f"{key} (other weights of the same shapes)" for key in _other_sets(beside, loaded)]
    aside += dict.fromkeys(AVERAGED.get(name) or re.sub(r"\.(\d+\.)?(weight|bias)$", "", name) for name in heads)
    return Contents(as_gpt2(weights) if is_nanogpt(weights) else weights, steps[0] if steps else None, tuple(aside))


def _other_sets(beside: Mapping[str, Any], read: Mapping[str, Any]) -> list[str]:
    """Return the keys beside the weights that hold as many others of the same shapes, as averages of them."""
    own, shapes = {id(one) for one in _tensors(read)}, _shapes(read)
    held = {key: value for key, value in beside.items() if isinstance(value, Mapping | list | Stub)}
    others = [key for key, value in held.items() if not any(id(one) in own for one in _tensors(value))]
    return [key for key in others if not OPTIMISER.search(str(key)) and _shapes(held[key]) == shapes]


def _shapes(held: Any) -> Counter[tuple[int, ...]]:
    """Count the shapes of the tensors in a value, those of single numbers apart."""
    return Counter(tuple(one.shape) for one in _tensors(held) if one.ndim)


def _object_in(value: Any, depth: int = 4) -> str:
    """Return the name of the first object that is no plain data in a value; empty where there is none."""
    if isinstance(value, Stub) or not depth:
        return getattr(value, "name", "")
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return next((name for each in inside if (name := _object_in(each, depth - 1))), "")


def weights_by_name(saved: Any) -> Mapping[str, Any] | None:
    """Return the weights of what a training script saved; None where there are none, or several under other keys."""
    for key in WRAPPERS:
        if isinstance(saved, Mapping) and isinstance(saved.get(key), Mapping | Stub):
            saved = saved[key]
    if (weights := _weights_of(saved)) is not None:
        return weights
    inside = [*saved.values()] if isinstance(saved, Mapping) else []
    held = [each for one in inside if (each := _weights_of(one))]
    wrapped = [one for one in inside if isinstance(one, Mapping) and not one.keys().isdisjoint(WRAPPERS)]
    if not held and len(wrapped) == 1:
        return weights_by_name(wrapped[0])
    return held[0] if len(held) == 1 else None


def _weights_of(saved: Any) -> Mapping[str, Any] | None:
    """Return the weights that a mapping by name, or a whole model, is; what of a mapping is none stays among them."""
    if isinstance(saved, Stub):
        return dict(_of_module(saved, "")) or None
    if not isinstance(saved, Mapping):
        return None
    arrays = {name: array for name, one in saved.items() if (array := array_of(one)) is not None and array.ndim}
    named = {name: torch.tensor(arrays[name]) if name in arrays else one for name, one in saved.items()}
    others = sum(not isinstance(one, Tensor) for one in named.values())
    plain = any(isinstance(one, Mapping) for one in named.values())
    return None if plain or 2 * others >= len(named) else named


def _of_module(module: Stub, prefix: str, depth: int = 32) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights of a model that was saved whole, with the buffers that its state dict would have."""
    left = module.fields.get("_non_persistent_buffers_set") or ()
    for kind in ("_parameters", "_buffers", "_modules"):
        held = module.fields.get(kind)
        for name, one in held.items() if isinstance(held, Mapping) else ():
            if isinstance(one, Tensor) and not (kind == "_buffers" and name in left):
                yield f"{prefix}{name}", one
            elif isinstance(one, Stub) and depth:
                yield from _of_module(one, f"{prefix}{name}.", depth - 1)


def config_in(path: Path) -> dict[str, Any] | None:
    """Read the config that a training script saved in the file of the weights itself, None where it saved none."""
    saved = None if path.suffix == ".safetensors" else load_file(path, inertly=True)
    return config_of(saved, path) or described_in(saved)


def described_in(saved: Any) -> dict[str, Any] | None:
    """Return the fields of a HookedTransformer's or Hugging Face's config that lies beside weights or in the model."""
    for one in saved.values() if isinstance(saved, Mapping) else (saved,):
        inside = one.fields if isinstance(one, Stub) else {}
        for each in (one, inside.get("cfg"), inside.get("config")):
            fields = each.fields if isinstance(each, Stub) else each if isinstance(each, Mapping) else {}
            named = each.name if isinstance(each, Stub) else ""
            family = re.match(r"transformers\.models\.(\w+)\.configuration", named)
            if family or fields.keys() >= NAMED_SIZES or "model_type" in fields:
                arrays = {name: array_of(value) for name, value in fields.items()}
                values = {str(name): fields[name] if array is None else array.item() for name, array in arrays.items()}
                plain = {name: value for name, value in values.items() if not isinstance(value, Stub)}
                own = {"architectures": [type(one).__name__]} if isinstance(one, Stub) and one is not each else {}
                return plain | ({"model_type": family[1], **own} if family else {})
    return None


def unusable(weight: Tensor) -> str:
    """Return in which form a weight is that nothing can be computed with as it is; empty if it is in none."""
    if type(weight) not in (Tensor, torch.nn.Parameter):
        kind = type(weight).__name__
        return (
            f"as a {kind}, {FSDP2_ADVICE if kind == pickles.FSDP2 else f'a tensor of a class of its own: {DEQUANTISE}'}"
        )
    if weight.is_meta:
        return "without its numbers, on torch's meta device: save it from where it has them"
    if weight.is_quantized:
        return f"quantised: {DEQUANTISE}"
    if weight.layout != torch.strided:
        return f"as a {str(weight.layout).removeprefix('torch.')} tensor: take `weight.to_dense()`"
    is_packed = str(weight.dtype).startswith("torch.float4")
    return f"as {weight.dtype}, two numbers a byte: convert it to float32" if is_packed else ""


def _unwrapped(state: Mapping[str, Tensor], by_lightning: bool) -> tuple[dict[str, Tensor], list[str]]:
    """Return weights by the model's own names, and the names of those that are the module's that held it."""
    state = {INSIDE.sub("", name): weight for name, weight in state.items()}
    tops = {name: name.removesuffix(top) for name in state for top in AT_THE_TOP if name.endswith(top)}
    # A head beside a model that has one of its own, as lm_head beside model.unembed, is another module's.
    sizes = {prefix: sum(name.startswith(prefix) for name in state) for prefix in tops.values() if prefix.endswith(".")}
    held = max((prefix for prefix, size in sizes.items() if 2 * size > len(state)), key=len, default="")
    foreign = AT_THE_TOP[1:] if f"{held}{AT_THE_TOP[0]}" in state else ()
    left = [name for name in state if not name.startswith(held) or name.removeprefix(held) in foreign]
    state = {name.removeprefix(held): weight for name, weight in state.items() if name not in left}
    while True:
        prefix = next(iter(state)).split(".")[0] + "."
        is_known = by_lightning or prefix == WRAPPED or any(prefix + name in state for name in AT_THE_TOP)
        if not is_known or not all(name.startswith(prefix) for name in state):
            return state, [name.removeprefix(held) for name in left]
        state, by_lightning = {name.removeprefix(prefix): weight for name, weight in state.items()}, False


def not_finite(state: State) -> tuple[str, ...]:
    """Return the names of the weights that hold nan or infinity; a HookedTransformer's constant buffers may."""
    return tuple(name for name, weight in without_constants(state).items() if not is_finite(weight))


def load_file(path: Path, fix: str = RESTORE, *, inertly: bool = False) -> Any:
    """Load weights on the CPU without running code; `inertly` reads objects that are no plain data as stubs."""
    from safetensors import SafetensorError

    try:
        check_file(path, MEMORY)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is gone: it was there when the series was opened") from None
    size = path.stat().st_size
    checksums.check(path, fix)
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # torch's, of forms that are named below
            loaded = _loaded(path, inertly)
    except (SafetensorError, OSError, *pickles.UNREADABLE) as reason:
        # A truncated zip archive makes torch seek before its start, which the system calls an invalid argument.
        if isinstance(reason, NotOnlyWeightsError) or (isinstance(reason, OSError) and reason.errno != errno.EINVAL):
            raise
        if what := formats.other_form(path, str(reason)):
            raise formats.OtherFormError(f"{path} {what}") from reason
        # Torch's advice to load the file all the same is left out.
        why = "no pickle of weights" if isinstance(reason, UnpicklingError) else line_of(reason)
        raise ValueError(f"{path} is truncated or damaged ({size} bytes: {why}). {fix}") from reason
    claimed = sum(each.numel() * each.element_size() for each in _tensors(loaded))
    if claimed > MEMORY:
        raise ValueError(
            f"{path} holds tensors that repeat what its {size} bytes hold: they would take {claimed} bytes, and this "
            f"machine has memory for {MEMORY}. Save them without `expand`, or leave its step out"
        )
    return loaded


def _tensors(loaded: Any) -> Iterator[Tensor]:
    """Yield the tensors of whatever a file holds that take memory, or would where they are computed with."""
    rest, seen = [loaded], set[int]()
    while rest:
        one = rest.pop()
        if isinstance(one, Tensor) and not one.is_meta and one.layout == torch.strided:
            yield one
        elif isinstance(one, Mapping | list | tuple | Stub) and id(one) not in seen:
            seen.add(id(one))  # a file may hold what holds itself
            rest += vars(one).values() if isinstance(one, Stub) else one.values() if isinstance(one, Mapping) else one


def _loaded(path: Path, inertly: bool) -> Any:
    from safetensors.torch import load_file as load_safetensors

    if path.is_dir():  # which safetensors calls a missing device
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    by_torch = zipfile.is_zipfile(path)
    if formats.is_safetensors(path) or (path.suffix == ".safetensors" and not by_torch):
        return load_safetensors(path)
    # Torch compares no checksums: a flipped bit would be another weight.
    if by_torch and (record := pickles.spoilt_record(path)):
        raise ValueError(f"the checksum of {record} does not agree")
    try:
        with path.open("rb") as file:  # by the name of which torch would choose safetensors
            return torch.load(file if path.suffix == ".safetensors" else path, map_location="cpu", weights_only=True)
    except UnpicklingError:
        if inertly:
            return pickles.load_inertly(path)
        if why := pickles.refusal(path):
            raise NotOnlyWeightsError(why) from None
        raise
