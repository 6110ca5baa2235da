"""A file of llama.cpp as a source: one checkpoint, its quantised weights as float32."""

from pathlib import Path
from typing import Any

from torch import Tensor

from stagewise.checkpoints._architectures import architecture_from
from stagewise.checkpoints._digest import file_digest
from stagewise.checkpoints._weight_files import Contents, is_file
from stagewise.checkpoints.names import Coordinates
from stagewise.checkpoints.sources import Entry, Source
from stagewise.config import line_of

ENDING = ".gguf"

MISSING = "reading {} takes the package gguf: `pip install gguf` (the extra `gguf`)"


def gguf_at(place: Path) -> Path | None:
    """Return the file of llama.cpp that a path is, or that is all the weights in a folder; else None."""
    if place.is_file():
        return place if place.suffix == ENDING else None
    inside = list(place.iterdir()) if place.is_dir() else []
    files = [path for path in inside if path.suffix == ENDING]
    return files[0] if len(files) == 1 and not any(path.is_dir() or is_file(path) for path in inside) else None


def in_gguf(path: Path) -> Source:
    """Return a file's model as a source of one checkpoint, at step 0. Nothing is read before it is asked for."""
    entry = Entry(
        path.name,
        Coordinates(0),
        read=lambda: Contents(_weights(path)),
        digest=lambda: file_digest([path]),
        config=lambda: _config(path),
        time=lambda: path.stat().st_mtime,
    )
    told = f"{path.name} -> one checkpoint, called step 0; its weights are dequantised to float32"
    return Source(path.stem, (entry,), names=(told,))


def _config(path: Path) -> dict[str, Any]:
    config: dict[str, Any] = _read(path, "AutoConfig").to_dict()
    return config


def _weights(path: Path) -> dict[str, Tensor]:
    architecture_from(_config(path))  # refuses a config of another kind, or of any size, before a model is made
    return dict(_read(path, "AutoModelForCausalLM").state_dict())


def _read(path: Path, kind: str) -> Any:
    """Read a file by transformers.

    Raises:
        FileNotFoundError: it is gone.
        ModuleNotFoundError: gguf is not installed.
        ValueError: it is damaged, or of a family that transformers does not read.
    """
    import transformers

    if not path.is_file():
        raise FileNotFoundError(f"{path} is gone: it was there when the series was opened")
    try:
        return getattr(transformers, kind).from_pretrained(path.parent, gguf_file=path.name)
    except ImportError as reason:
        raise ModuleNotFoundError(MISSING.format(path.name)) from reason
    except Exception as reason:  # a foreign file, read by foreign code: whatever it raises is about the file
        raise ValueError(f"{path} cannot be read as a file of llama.cpp: {line_of(reason)}") from reason
