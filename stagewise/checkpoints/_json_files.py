"""The one reader of JSON files, with an error for each kind of fault."""

import json
from pathlib import Path
from typing import Any

from stagewise.checkpoints import _checksums as checksums

LARGEST = 2**28
"""Bytes of a JSON file that is read; a tokenizer's and a long training's take a tenth of it."""

KINDS = {list: "a list", str: "a text", bool: "a boolean", int: "a number", float: "a number"}


def read_json(path: Path, fix: str = "restore it", *, name: str = "") -> dict[str, Any]:
    """Read a file that holds a JSON object; the error of another one names its fault, and ends in the fix."""
    what = name or str(path)
    try:
        if (size := path.stat().st_size) > LARGEST:
            raise ValueError(f"{what} is no file to read: it has {size} bytes, expected {LARGEST} at most: {fix}")
        checksums.check(path, fix)
        text = path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"{what} is not there: {fix}") from None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as reason:  # which a number of thousands of digits is, too
        raise ValueError(f"{what} is not valid JSON ({reason}): {fix}") from reason
    if not isinstance(value, dict):
        raise ValueError(f"{what} holds {KINDS.get(type(value), 'nothing')}, expected a JSON object: {fix}")
    return value
