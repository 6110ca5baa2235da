"""Parts of a .safetensors file, by ranges of its bytes, wherever it lies; other files raise a ValueError."""

import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stagewise.checkpoints._sketches import PERIOD
from stagewise.checkpoints._weight_files import State

Fetch = Callable[[int, int], bytes]
"""From the first byte and the one behind the last to these bytes."""

HEADER = 2**17
"""Bytes that are read at first: the header of most files, which says where each weight is."""

NEAR = 2**18
"""Bytes between two ranges, at most, that are read along with them: a request takes as long."""

ENTRIES = PERIOD
"""Entries of a weight, at least, that are read: sketches repeat their signs after so many."""

MLP = re.compile(r"(?:^|\.)(?:mlp|fc1|fc2)\.")
"""In the name of a weight that neither heads nor embeddings have."""


def first_rows(fetch: Fetch) -> State:
    """Return the first rows of each weight, so many as have `ENTRIES` entries; all of a small one."""
    return _rows(fetch, lambda _: ENTRIES)[0]


def without_mlps(fetch: Fetch) -> State:
    """Return all weights, but those of MLPs as zeros, of which no byte is read."""
    rows, header = _rows(fetch, lambda name: 0 if MLP.search(name) else sys.maxsize)
    return {
        name: rows[name].new_zeros(1).expand(described["shape"]) if MLP.search(name) else rows[name]
        for name, described in header.items()
    }


def part_without_mlps(fetch: Fetch) -> float:
    """Return which part of the bytes of a file `without_mlps` reads."""
    sizes = {name: int(np.ptp(described["data_offsets"])) for name, described in _rows(fetch, lambda _: 0)[1].items()}
    return sum(size for name, size in sizes.items() if not MLP.search(name)) / max(sum(sizes.values()), 1)


def _rows(fetch: Fetch, entries: Callable[[str], int]) -> tuple[State, Mapping[str, Any]]:
    """Return the first rows of each weight, which have so many entries at least, and what describes all weights."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    begin = fetch(0, HEADER)
    start = 8 + int.from_bytes(begin[:8], "little")
    try:
        header = json.loads((begin if start <= len(begin) else begin + fetch(len(begin), start))[8:start])
        header.pop("__metadata__", None)
        parts = {name: _part(described, entries(name)) for name, described in header.items()}
        blocks = {at: fetch(start + at, start + end) for at, end in _merged(part[:2] for part in parts.values())}
        rows: State = load(_packed(header, parts, blocks))
    except (SafetensorError, KeyError, TypeError, AttributeError, ValueError) as reason:
        raise ValueError(f"it is no file of safetensors, or damaged ({reason})") from reason
    return rows, header


def _part(described: Mapping[str, Any], entries: int) -> tuple[int, int, list[int]]:
    """Return where the first rows of a weight begin and end, and their shape."""
    (start, stop), shape = described["data_offsets"], list(described["shape"])
    width = math.prod(shape[1:])
    rows = math.ceil(min(shape[0], entries / max(width, 1))) if shape else 1
    part = (stop - start) * rows // shape[0] if shape and shape[0] else stop - start
    return start, start + part, [rows, *shape[1:]] if shape else []


def _merged(spans: Any) -> list[tuple[int, int]]:
    """Return ranges that cover these, those near each other as one."""
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if merged and start - merged[-1][1] <= NEAR:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return [span for span in merged if span[1] > span[0]]


def _packed(
    header: Mapping[str, Any], parts: Mapping[str, tuple[int, int, list[int]]], blocks: Mapping[int, bytes]
) -> bytes:
    """Return a file of safetensors of these parts."""
    packed, data = dict[str, Any](), bytearray()
    for name, (start, stop, shape) in parts.items():
        block = max((at for at in blocks if at <= start), default=0)
        at, place = start - block, len(data)
        data += blocks[block][at : at + stop - start] if stop > start else b""
        packed[name] = {"dtype": header[name]["dtype"], "shape": shape, "data_offsets": [place, len(data)]}
    text = json.dumps(packed).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data)
