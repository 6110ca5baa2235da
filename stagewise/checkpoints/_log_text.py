"""The text of a file that a trainer wrote, or a terminal's output was saved to, however it is encoded."""

import codecs
import re
from pathlib import Path

BEGINNING = 4096
"""Bytes of a file by which it is known to be no text."""

COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Control sequences of a terminal: colours, and where to write."""


def text_of(path: Path) -> str:
    """Return the text of a file without a terminal's colours, encoded in UTF-8 or, as PowerShell writes it, UTF-16.

    Raises:
        ValueError: it holds no text.
    """
    held = path.read_bytes()
    wide = held.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    if not wide and b"\0" in held[:BEGINNING]:
        raise ValueError(f"{path.name} is no text: save its columns of steps and values as .csv or .parquet")
    return COLOUR.sub("", held.decode("utf-16" if wide else "utf-8-sig", errors="replace"))
