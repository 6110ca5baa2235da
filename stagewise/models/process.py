"""Settings of a process of its own, the command line's or a worker's: never made at import."""

import contextlib
import ctypes
import gc
import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from multiprocessing.context import BaseContext

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt: from which size on freed memory is given back, and a block is mapped by itself."""

_KEPT = 2**30

_LIBRARIES = ("torch", "transformer_lens")
"""Libraries that every process with models needs, and takes seconds to import."""


def start_method(*modules: str) -> BaseContext:
    """Return how workers start: as copies of a server, if any, that has imported what they need and run nothing.

    The server imports modules beside the libraries, if it does not run yet.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["stagewise.models._preloaded", *modules])
    return context


def start_server(*modules: str) -> None:
    """Start the server of worker processes, if there are such, for it to import while this process does.

    Ctrl-C ends this process, and the server with it, without a traceback from the midst of an import.
    """
    if start_method(*modules).get_start_method() != "forkserver":
        return
    from multiprocessing import forkserver

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which the server inherits
    try:
        forkserver.ensure_running()
    finally:
        signal.signal(signal.SIGINT, before)


def import_libraries() -> None:
    """Import slow libraries without looking through their objects for garbage, now or later: a fifth of the time."""
    gc.disable()
    try:
        for name in _LIBRARIES:
            importlib.import_module(name)
        gc.freeze()
    finally:
        gc.enable()


def one_thread() -> None:
    """Set torch to one thread, on which small models train fastest, and keep freed memory."""
    import torch

    torch.set_num_threads(1)
    _keep_freed_memory()


@contextlib.contextmanager
def threads(number: int) -> Iterator[None]:
    """Give torch so many threads for a time, where it has fewer and OMP_NUM_THREADS does not say how many it has."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(before if "OMP_NUM_THREADS" in os.environ else max(before, number))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _keep_freed_memory() -> None:
    """Keep freed memory under glibc: to fill pages with zeros takes up to a quarter of the time of edited passes."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _KEPT)
        mallopt(_M_TRIM_THRESHOLD, _KEPT)
