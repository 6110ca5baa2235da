"""Bars of what takes long without having been asked to show any, on a terminal alone."""

from contextvars import ContextVar
from typing import Any

from tqdm.auto import tqdm

SILENT: ContextVar[bool] = ContextVar("silent", default=False)
"""Whether no bar is shown, as after --quiet or --json."""


def bar(what: str, total: int, unit: str) -> "tqdm[Any]":
    """Return a bar that vanishes at its end."""
    return tqdm(total=total, desc=what, unit=unit, leave=False, disable=SILENT.get() or None)


def silence(asked: bool) -> bool:
    """Show no bars from here on where that is asked for."""
    SILENT.set(SILENT.get() or asked)
    return asked
