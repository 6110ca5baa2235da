"""The names of files and folders of weights: by these they are found, before anything is read."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from stagewise.checkpoints.names import ENDINGS, Coordinates, Parse, Reading, read_names

WHOLE = ("model.safetensors", "pytorch_model.bin")
INDEX = ("model.safetensors.index.json", "pytorch_model.bin.index.json")

SHARDS = ".metadata"
"""The file that torch.distributed.checkpoint writes beside its shards."""

STEPS = ("global_step", "step", "step_count", "iteration", "iter", "iter_num", "steps")
"""Keys under which training scripts put the step beside weights."""

TRAINING = re.compile(
    r"(?i)(?:.*_(?=optim_states))?(optim|optims|optimi[sz]er|(lr_?)?scheduler|sched|(grad_?)?scaler|rng|random_states"
    r"|sampler|training_args)(?![a-z])|opt_?\d+\.\w+$"
    r"|.*[-_.](optims?|optimi[sz]er|(lr_?)?scheduler)(_states?)?(_?rank_?\d+)?\.\w+$"
)
"""Beginnings and ends of the names of files with a training's state, beside its weights."""

GGUF = ".gguf"

BY_NAME = "save its arrays by name with `safetensors.numpy.save_file`, each as `np.ascontiguousarray(array)`"

BY_TORCH = "save the model's state dict with `torch.save`"

CONVERTERS = {
    ".msgpack": f"of Flax: load it with `from_flax=True` and save it with `save_pretrained`, or {BY_NAME}",
    ".gguf": "of llama.cpp: give one such file alone, which is a series of one checkpoint",
    ".eqx": f"of equinox: {BY_NAME}",
    ".npz": f"of NumPy: {BY_NAME}",
    ".h5": f"of Keras: {BY_NAME}",
    ".keras": f"of Keras: {BY_NAME}",
    ".index": f"of TensorFlow: read it with `tf.train.load_checkpoint`, and {BY_NAME}",
    ".tensors": f"of tensorizer: load it with its TensorDeserializer, and {BY_TORCH}",
    ".snapshot_metadata": f"of torchsnapshot: restore it, and {BY_TORCH}",
    ".memmap": f"of tensordict: load it with `TensorDict.load_memmap`, and {BY_TORCH}",
    "zarr.json": f"of zarr: {BY_NAME}",
    "_CHECKPOINT_METADATA": f"of orbax: restore it, and {BY_NAME}",
    "optim_states.pt": "of DeepSpeed in parts: run `python zero_to_fp32.py . NEW`, the script that lies beside it",
    "model_optim_rng.pt": "of Megatron: run its tools/checkpoint/convert.py, or its model family's converter",
    "mp_rank_01_model_states.pt": "of DeepSpeed, a part for each process: run the converter of what trained it",
}
"""Ends of names of files that hold weights in a form that is not read -> whose they are, and what converts them."""


def is_file(path: Path) -> bool:
    """Whether a path is named as a file of weights."""
    return path.name.endswith(ENDINGS)


def stem(path: Path) -> str:
    """Return the name of a file of weights without its endings, of a folder as it is."""
    return next((path.name.removesuffix(each) for each in reversed(ENDINGS) if path.name.endswith(each)), path.name)


def gguf_at(place: Path) -> Path | None:
    """Return the file of llama.cpp that a path is, or that is all the weights in a folder; else None."""
    if place.is_file():
        return place if place.suffix == GGUF else None
    inside = list(place.iterdir()) if place.is_dir() else []
    files = [path for path in inside if path.suffix == GGUF]
    return files[0] if len(files) == 1 and not any(path.is_dir() or is_file(path) for path in inside) else None


def chosen_files(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that hold a checkpoint's weights; an index stands for its shards. Empty if there are none."""
    unique = set(names)
    for whole, index in zip(WHOLE, INDEX, strict=True):
        if whole in unique:
            return (whole,)
        if index in unique:
            stem, ending = index.removesuffix(".index.json").rsplit(".", 1)
            return tuple(sorted(n for n in unique if n.startswith(f"{stem}-") and n.endswith(f".{ending}")))
    return (SHARDS,) if SHARDS in unique else ()


def missing_shard(names: Iterable[str]) -> str | None:
    """Return the first shard that is missing from the numbering of the others."""
    unique = set(names)
    for match in filter(None, (re.fullmatch(r"(.+-)(\d+)-of-(\d+)(\..+)", name) for name in sorted(unique))):
        stem, number, last, ending = match.groups()
        expected = (f"{stem}{k:0{len(number)}}-of-{last}{ending}" for k in range(1, int(last) + 1))
        return next((shard for shard in expected if shard not in unique), None)
    return None


def holds_weights(folder: Path) -> bool:
    """Whether a file in a folder is named as one of weights."""
    return folder.is_dir() and any(is_file(each) or each.name in INDEX for each in folder.iterdir())


def checkpoints_in(paths: Iterable[Path]) -> list[Coordinates]:
    """Return where the files and folders of weights among others lie in their training, by their names."""
    weights = [each for each in paths if holds_weights(each) or (is_file(each) and not TRAINING.match(each.name))]
    return [reading.at for reading in names_of(weights).values() if reading.at is not None]


def names_of(paths: Sequence[Path], parse: Parse | str | None = None) -> dict[Path, Reading]:
    """Read the names of files, and those of folders or repositories, whose numbers without a word are no steps."""
    readings: dict[Path, Reading] = {}
    for of_files in (True, False):
        alike = [path for path in paths if is_file(path) == of_files]
        readings |= dict(zip(alike, read_names([stem(path) for path in alike], parse, bare=of_files), strict=True))
    return readings


def converter(names: Iterable[str]) -> str:
    """Return the converter of weights that others wrote, by their files' names, in words; empty where none is known."""
    known = ((name, advice) for name in sorted(names) for end, advice in CONVERTERS.items() if name.endswith(end))
    return next((f"{name} holds weights {advice}" for name, advice in known), "")
