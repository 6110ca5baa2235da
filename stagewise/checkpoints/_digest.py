"""Hashes of what determines a result: of data and tensors in any nesting, and of files. Equal inputs, equal hashes."""

import dataclasses
import hashlib
import json
import math
import re
import stat
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from stagewise.fields import MEMORY

SHORT = 16
"""Hexadecimal digits where a hash is part of a file's name."""

KINDS = {
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}

HOLLOW = 2**30
"""Bytes of a file from which on it is looked at how many of them are on the disk."""


def digest(value: object) -> str:
    """Return the SHA-256 of data in any nesting, with XXH3 for the bytes of arrays; other objects count by repr."""
    return hashlib.sha256(_text(_plain(value)).encode("utf8")).hexdigest()


def short_digest(value: object) -> str:
    """Return the first digits of a digest, for the name of a file."""
    return digest(value)[:SHORT]


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, as the hub gives it."""
    check_file(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_file(path: Path, largest: int | float = math.inf) -> None:
    """Refuse, before it is opened, what is no file, is larger than so many bytes, or was never copied whole."""
    status = path.stat()
    if kind := next((kind for is_one, kind in KINDS.items() if is_one(status.st_mode)), ""):
        raise ValueError(f"{path} is {kind}, expected a file: it was not opened")
    if status.st_size > HOLLOW and hasattr(status, "st_blocks") and 64 * 512 * status.st_blocks < status.st_size:
        stored = 512 * status.st_blocks
        raise ValueError(f"{path} is hollow: only {stored} of its {status.st_size} bytes are on the disk. Restore it")
    if status.st_size > largest:
        raise ValueError(f"{path} has {status.st_size} bytes, and {largest} can be read: it was not opened")


def bytes_of(path: Path, largest: int | float = MEMORY) -> bytes:
    """Return the bytes of a file."""
    check_file(path, largest)
    return path.read_bytes()


def file_digest(paths: Iterable[Path]) -> str:
    """Return the hash of the bytes of several files, in their order."""
    return digest([file_sha256(path) for path in paths])


def is_told(value: object) -> bool:
    """Whether a hash tells data apart: no part of it counts by the address in its repr, as a function does."""
    return re.search(r" at 0x[0-9a-f]", _text(_plain(value))) is None


def _text(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True)


def _plain(value: object) -> Any:
    """Return the value as JSON can hold it, the same for equal values; types that JSON lacks are tagged."""
    torch = sys.modules.get("torch")  # stages and reports do without it
    if torch is not None and isinstance(value, torch.Tensor):
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return _bytes(str(value.dtype), tuple(value.shape), flat)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return _bytes(str(value.dtype), value.shape, np.ascontiguousarray(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _plain({"type": type(value).__name__, **fields})
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _plain(item) for key, item in value.items()}
        return {"pairs": sorted(_text([_plain(key), _plain(item)]) for key, item in value.items())}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return {"set": sorted(_text(_plain(item)) for item in value)}
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return value if value is None or isinstance(value, int | float | str) else {"repr": repr(value)}


def _bytes(kind: str, shape: tuple[int, ...], values: np.ndarray) -> dict[str, Any]:
    return {"array": kind, "shape": list(shape), "bytes": xxhash.xxh3_128_hexdigest(values.data)}
