"""Text of strangers, made fit for a page, a terminal and the name of a file: bounded, and shown as the text it is."""

import difflib
import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

NAME = 100
"""Letters of a name: of a curve, a quantity, a run, a reference."""

TEXT = 2000
"""Letters of a cell or a sentence."""

FILE = 100
"""Bytes of a part of a file's name: temporary files add to it, and systems allow 255."""

NEAR = 0.7
"""Likeness of two names by difflib from which on one may be meant by the other."""

CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    r"\xad\u034f\u115f\u1160\u17b4\u17b5\u180e\u3164\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that move a cursor, turn the direction of a text, break its lines unseen, are half of one, or unseen."""

MARKS = 4
"""Marks over and under one letter, more than any language writes: those above them would cover other lines."""

UP = "\x1b[A"
"""The sequence by which progress bars move up a line."""


def visible(text: str) -> str:
    r"""Return text with its control characters and its heaps of marks written out, in one line.

    >>> visible("a\x1b[2J\nb")
    'a\\u001b[2J b'
    """
    text = CONTROL.sub(lambda match: " " if match[0] in "\t\n\r" else _written_out(match[0]), text)
    return text if text.isascii() else "".join(_low(text))


def _low(text: str) -> Iterator[str]:
    """Yield the letters of a text with at most `MARKS` marks each, and further marks written out."""
    marks = 0
    for letter in text:
        marks = marks + 1 if unicodedata.category(letter) in ("Mn", "Me") else 0
        yield letter if marks <= MARKS else _written_out(letter)


def _written_out(letter: str) -> str:
    return f"\\u{ord(letter):04x}"


def visible_lines(text: str) -> str:
    """Return text with its control characters written out, but for the ends of its lines."""
    return "\n".join(map(visible, text.split("\n")))


def shortened(text: str, longest: int = TEXT) -> str:
    """Return text of at most so many letters, and how many more there were.

    >>> shortened("x" * 12, 10)
    'xxxxxxxxxx… (2 more letters)'
    """
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text) - longest} more letters)"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the nearest of some names as a question in brackets; nothing where none is near.

    >>> did_you_mean("mesure", ["measure", "report"]), did_you_mean("x", ["measure"])
    (' (did you mean measure?)', '')
    """
    near = difflib.get_close_matches(name, dict.fromkeys(names), 1, NEAR)
    return f" (did you mean {near[0]}?)" if near else ""


def instead_of(name: str, names: Iterable[str]) -> str:
    """Return the words that follow an unknown name: the nearest known one, and all of them.

    >>> instead_of("los", ["loss", "rate"])
    ' (did you mean loss?); there are loss, rate'
    """
    return f"{did_you_mean(name, names)}; there are {', '.join(names)}"


def plain_name(text: str, longest: int = NAME) -> str:
    """Return a name in one line; a longer one is cut, with a number that tells it from others that begin alike."""
    if len(text) <= longest and text.isascii() and text.isprintable():
        return text
    shown = visible(text)
    return shown if len(shown) <= longest else f"{shown[: longest - 10]}… {_number(text)}"


def file_part(text: str) -> str:
    """Return text as a part of a file's name, cut as `plain_name` cuts where it is too long for one."""
    shown = visible(text)
    return shown if len(os.fsencode(shown)) <= FILE else f"{shown[: FILE // 4]}-{_number(text)}"


def _number(text: str) -> str:
    return hashlib.sha256(text.encode("utf8", "surrogatepass")).hexdigest()[:8]


def plain_names(frame: "pd.DataFrame", arrays: Iterable[str] = ()) -> "pd.DataFrame":
    """Return a frame whose text is names, as `plain_name` makes them; its columns of arrays stay."""
    for column in frame.columns.difference(list(arrays)):
        if str(frame[column].dtype) in ("object", "str", "string", "category"):
            new = {each: plain_name(each) for each in frame[column].dropna().unique() if isinstance(each, str)}
            if changed := {each: name for each, name in new.items() if each != name}:
                frame[column] = frame[column].astype(object).map(lambda each, to=changed: to.get(each, each))
    return frame.rename(columns=lambda each: plain_name(str(each)))


class PlainStream:
    """A stream of text to a terminal, which no text can move about in, but for the bars of a progress."""

    def __init__(self, stream: Any) -> None:
        """Take the stream."""
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text with its control characters written out."""
        if not text.replace(UP, "").strip("\n\r"):
            return int(self._stream.write(text))
        start = "\r" if text.startswith("\r") else ""
        self._stream.write(start + visible_lines(text.removeprefix("\r")))
        return len(text)
