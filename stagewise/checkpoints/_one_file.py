"""One file as a source: the checkpoints of a list or a mapping, the only one that it is, or a model of llama.cpp."""

import contextlib
import dataclasses
import importlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from stagewise.checkpoints._architectures import architecture_from
from stagewise.checkpoints._digest import file_digest
from stagewise.checkpoints._folders import of_path
from stagewise.checkpoints._weight_files import Contents, contents_of, described_in, load_file, weights_by_name
from stagewise.checkpoints._weight_names import GGUF, stem
from stagewise.checkpoints.names import GIVE_PARSE, Coordinates, Parse, is_step, read_names
from stagewise.checkpoints.sources import Entry, Source, in_memory
from stagewise.config import line_of

STEPS = ("step", "iter", "epoch")
"""Parts of the key of the steps beside a list of checkpoints, the best first."""


def in_file(path: Path, parse: Parse | str | None = None) -> Source:
    """Find the checkpoints in a file: those of a list, or of a mapping from steps or from names; or its only one."""
    saved = {} if path.suffix == ".safetensors" else load_file(path, inertly=True)
    parts, steps, where = _several(saved)
    if not parts:
        (reading,) = read_names([stem(path)], parse)
        step = None if reading.at or not saved else contents_of(saved, path).step
        at = reading.at if step is None else Coordinates(step)
        if at is None:
            raise ValueError(f"{path} holds one checkpoint, and no step of it ({reading.why}): {GIVE_PARSE}")
        return Source(stem(path), (of_path(path, at),))
    held = [contents_of(part, path) for part in parts]
    if steps is None and all(one.step is not None for one in held):
        steps, where = [one.step or 0 for one in held], "beside their weights"
    if steps is None:
        steps, where = range(len(held)), "counted, as the file says none: they are entries of the list, not updates"
    told = f"{path.name} -> {len(held)} checkpoints, steps {', '.join(map(str, [*steps][:3]))}, ... {where}"
    config, pairs = described_in(saved), zip(steps, (one.weights for one in held), strict=True)
    source = in_memory(sorted(pairs, key=lambda pair: pair[0]), stem(path))
    architecture = None if config is None else architecture_from(config)
    return dataclasses.replace(source, architecture=architecture, names=(told,))


def _several(saved: Any) -> tuple[Sequence[Any], Sequence[int] | None, str]:
    """Return several checkpoints in one object, none where it is one, with their steps and where these were found."""
    if _are_checkpoints(saved):
        return saved, None, ""
    if not isinstance(saved, Mapping) or not saved:
        return (), None, ""
    keys, values = list(saved), list(saved.values())
    if _are_checkpoints(values):
        steps = keys if all(map(is_step, keys)) else [one.at and one.at.step for one in read_names([*map(str, keys)])]
        if all(map(is_step, steps)):
            return values, [step for step in steps if step is not None], "by their keys"
    lists = [value for value in values if _are_checkpoints(value)]
    if len(lists) != 1:
        return (), None, ""
    for word in STEPS:
        for key, value in saved.items():
            numbers = value.tolist() if isinstance(value, Tensor) and value.ndim == 1 else value
            counted = isinstance(numbers, list) and len(numbers) == len(lists[0]) and all(map(is_step, numbers))
            if counted and word in str(key) and len(set(numbers)) == len(numbers):
                return lists[0], numbers, f"of its {key}"
    return lists[0], None, ""


def _are_checkpoints(saved: Any) -> bool:
    return isinstance(saved, list | tuple) and bool(saved) and all(weights_by_name(each) for each in saved)


MISSING = "reading {} takes the package gguf: `pip install gguf` (the extra `gguf`)"


def in_gguf(path: Path) -> Source:
    """Return a file's model as a source of one checkpoint, at step 0. Nothing is read before it is asked for."""
    entry = Entry(
        path.name,
        Coordinates(0),
        read=lambda: Contents(_weights(path)),
        digest=lambda: file_digest([path]),
        config=lambda: _config(path).to_dict(),
        time=lambda: path.stat().st_mtime,
    )
    told = f"{path.name} -> one checkpoint, called step 0; its weights are dequantised to float32"
    return Source(path.stem, (entry,), names=(told,), beside={GGUF: path}.get)


def _config(path: Path) -> Any:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is gone: it was there when the series was opened")
    return _config_at(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _config_at(path: Path, time: int) -> Any:
    return _read(path, "AutoConfig")


_HELD: dict[tuple[Path, int], dict[str, Tensor]] = {}
"""The weights that were read last, until they are asked for once more: an audit reads them, and then the measuring."""


def _weights(path: Path) -> dict[str, Tensor]:
    config = _config(path)
    file = path, path.stat().st_mtime_ns
    if file in _HELD:
        return _HELD.pop(file)
    architecture_from(config.to_dict())  # refuses a config of another kind, or of any size, before a model is made
    _HELD.clear()
    # With its config given, transformers parses the file once and not twice.
    _HELD[file] = weights = dict(_read(path, "AutoModelForCausalLM", config=config).state_dict())
    _parsed.cache_clear()
    return weights


def _read(path: Path, kind: str, **given: Any) -> Any:
    """Read a file by transformers."""
    import transformers

    try:
        with _parsed_once(path):
            return getattr(transformers, kind).from_pretrained(path.parent, gguf_file=path.name, **given)
    except ImportError as reason:
        raise ModuleNotFoundError(MISSING.format(path.name)) from reason
    except Exception as reason:  # a foreign file, read by foreign code: whatever it raises is about the file
        raise ValueError(f"{path} cannot be read as a file of llama.cpp: {line_of(reason)}") from reason


@contextlib.contextmanager
def _parsed_once(path: Path) -> Iterator[None]:
    """Hand transformers the parsed file for its config and its weights, and one map of names for all modules: it makes
    each anew, which takes seconds.
    """
    gguf: Any = importlib.import_module("gguf")
    reader, names = gguf.GGUFReader, gguf.get_tensor_name_map
    gguf.GGUFReader = lambda _: _parsed(reader, path, path.stat().st_mtime_ns)
    gguf.get_tensor_name_map = cache(names)
    try:
        yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map = reader, names


@lru_cache(maxsize=1)
def _parsed(reader: type[Any], path: Path, time: int) -> Any:
    class Reader(reader):  # type: ignore[misc]  # mypy sees no class
        def __setattr__(self, name: str, value: Any) -> None:
            # A hundred thousand words are slices of it: those of a memory map take thrice as long as an array's.
            super().__setattr__(name, np.asarray(value) if name == "data" else value)

    return Reader(path)
