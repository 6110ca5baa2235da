"""The first rows of each weight in a .safetensors file, by ranges of its bytes: the file need not be here."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

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


def first_rows(fetch: Fetch) -> State:
    """Return the first rows of each weight, so many as have `ENTRIES` entries; all of a small one.

    Raises:
        ValueError: it is no .safetensors file.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    begin = fetch(0, HEADER)
    start = 8 + int.from_bytes(begin[:8], "little")
    try:
        header = json.loads((begin if start <= len(begin) else begin + fetch(len(begin), start))[8:start])
        header.pop("__metadata__", None)
        parts = {name: _part(described) for name, described in header.items()}
        blocks = {at: fetch(start + at, start + end) for at, end in _merged(part[:2] for part in parts.values())}
        rows: State = load(_packed(header, parts, blocks))
    except (SafetensorError, KeyError, TypeError, AttributeError, ValueError) as reason:
        raise ValueError(f"it is no file of safetensors, or damaged ({reason})") from reason
    return rows


def _part(described: Mapping[str, Any]) -> tuple[int, int, list[int]]:
    """Return where the first rows of a weight begin and end, and their shape."""
    (start, stop), shape = described["data_offsets"], list(described["shape"])
    width = math.prod(shape[1:])
    rows = min(shape[0], math.ceil(ENTRIES / max(width, 1))) if shape else 1
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
