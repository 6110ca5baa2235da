"""Ctrl-C while modules are loaded: an exception may come out of any of them as another one."""

import os
import signal
from typing import Any


def end_at_once() -> None:
    """From here on Ctrl-C ends the process, with a line."""
    signal.signal(signal.SIGINT, _end)


def raise_again() -> None:
    """From here on it is Python's KeyboardInterrupt, where `end_at_once` was called before."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: Any) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)
