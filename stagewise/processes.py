"""Worker processes: those that run models, and those that only read tables, which start without torch."""

import concurrent.futures
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import pickle
import platform
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import cloudpickle

from stagewise import own_code
from stagewise.models.process import one_thread, start_method

ROWS = 100_000
"""Rows of a table for each process that reads it: some ten seconds of a report, and two to start."""


@contextlib.contextmanager
def worker_pool(workers: int, *, models: bool = True) -> Iterator[concurrent.futures.Executor]:
    """Yield so many processes; they end when this one is killed, and no error waits for them.

    In a process that is a worker itself it waits for what runs: its end would come before they learn theirs, and
    both would wait for ever.

    It is an executor like any other: pass it to several sweeps, and the processes start once.

    Args:
        workers: how many.
        models: whether they run models: then each takes one thread, and starts from a server that has imported what
            they need, where there are such.

    Raises:
        RuntimeError: the script that runs has no `if __name__ == "__main__":`, so that each process would begin it
            anew.
    """
    _check_script()
    context = start_method() if models else multiprocessing.get_context("spawn")
    start = (dict(os.environ), models, own_code.named())
    pool = concurrent.futures.ProcessPoolExecutor(workers, context, _start_worker, start)
    try:
        with own_code.safe_path():
            yield pool
    except BaseException:
        pool.shutdown(wait=multiprocessing.parent_process() is not None, cancel_futures=True)
        raise
    pool.shutdown()


def several(workers: int) -> contextlib.AbstractContextManager[concurrent.futures.Executor | None]:
    """Return the pool of so many processes that run models; None for one, whose work is done in this process.

    Raises:
        ValueError: workers are less than one.
    """
    _check(workers)
    return worker_pool(workers) if workers > 1 else contextlib.nullcontext()


@contextlib.contextmanager
def readers(
    workers: int, rows: int, executor: concurrent.futures.Executor | None = None
) -> Iterator[concurrent.futures.Executor | None]:
    """Yield processes that read a table of so many rows: no more than workers, nor than pay for the time they start in.

    An executor is yielded as it is; None where this process does it alone.

    Raises:
        ValueError: workers are less than one.
    """
    _check(workers)
    workers = min(workers, rows // ROWS)
    if executor is not None or workers < 2:
        yield executor
        return
    with worker_pool(workers, models=False) as pool:
        yield pool


def _check(workers: int) -> None:
    if workers < 1:
        raise ValueError(f"give at least one worker, got {workers}")


def _check_script() -> None:
    """Refuse a script that every worker would run as a whole, since workers import what runs."""
    path = Path(getattr(sys.modules["__main__"], "__file__", None) or "")
    if path.suffix == ".py" and path.is_file() and "__name__" not in path.read_text(encoding="utf8", errors="replace"):
        raise RuntimeError(
            f"every worker process imports {path.name} and would begin it anew: put what it does below `if __name__ == "
            '"__main__":`'
        )


def cores() -> int:
    """Return how many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def here() -> tuple[str, int]:
    """Return the machine and the process that this is."""
    return platform.node(), os.getpid()


def call_elsewhere(
    function: Callable[..., Any] | bytes, home: tuple[str, int], modules: Mapping[str, str], *arguments: Any
) -> Any:
    """Call a function, or a pickled one, for another process: with the modules that a person named, in one thread."""
    own_code.allow(modules)
    if here() != home and "OMP_NUM_THREADS" not in os.environ:
        one_thread()
    called: Callable[..., Any] = pickle.loads(function) if isinstance(function, bytes) else function
    return called(*arguments)


def map_elsewhere(
    executor: concurrent.futures.Executor, function: Callable[[Any], Any], items: Iterable[Any]
) -> Generator[Any]:
    """Yield a function's results for each item, in their order; whoever stops early cancels the others.

    Args:
        executor: whose workers call the function, each with one thread.
        function: to call, which cloudpickle can pickle.
        items: its arguments, which any pickle can.
    """
    home, modules, pickled = here(), own_code.named(), cloudpickle.dumps(function)
    futures = [executor.submit(call_elsewhere, pickled, home, modules, item) for item in items]
    try:
        yield from (future.result() for future in futures)
    finally:
        for future in futures:
            future.cancel()


def _start_worker(environment: Mapping[str, str], models: bool, named: Mapping[str, str]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the server inherited
    own_code.allow(named)
    own_code.ignore_local_look()
    os.environ.update(environment)  # which may have changed since the server started that workers are copies of
    if models:
        one_thread()
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A worker whose sweep was killed would otherwise continue to write into a run that the next sweep resumes.
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
