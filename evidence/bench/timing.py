"""Two ways to do the same work, timed in turn in one process; ratios, and peak memory in processes of their own."""

import concurrent.futures
import contextlib
import dataclasses
import multiprocessing
import os
import re
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import psutil

SAMPLED = 0.05
"""Seconds between two looks at the processes of a command."""

PAIRS = 7
"""How often both sides are timed, where a row does not say."""

Work = Callable[[], object]
"""One run of a side."""

Side = Callable[[], Work]
"""Prepares a side and returns its work; at the top of a module, so that another process finds it."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A measured number with its goal.

    Args:
        name: what was measured, as it stands in tables.
        value: the median over the pairs.
        low: the smallest.
        high: the largest.
        goal: what the value should reach; None for a number that only informs.
        better: whether higher or lower is.
        note: what the number is made of: times of both sides, wall beside CPU time.
    """

    name: str
    value: float
    low: float
    high: float
    goal: float | None = None
    better: Literal["higher", "lower"] = "lower"
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the value is at its goal; None where there is none."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.better == "higher" else self.value <= self.goal


class Spent(NamedTuple):
    """Seconds that one run of a side took."""

    cpu: float
    wall: float


class Pair(NamedTuple):
    """One run of each side, directly after one another."""

    first: Spent
    second: Spent


class Memory(NamedTuple):
    """Bytes that a process of one side alone held: when it was prepared, and at most."""

    prepared: int
    peak: int


def timed_in_turn(first: Work, second: Work, pairs: int = PAIRS, repeats: int = 1, *, warm: bool = True) -> list[Pair]:
    """Time both in turn, the order reversed in every other pair.

    Args:
        first: one side.
        second: the other.
        pairs: how often.
        repeats: runs of a side at a time, where one is too short for the clock.
        warm: run each once before, which does not count.
    """
    if warm:
        first()
        second()
    timed = []
    for number in range(pairs):
        if number % 2:
            later, earlier = spent(second, repeats), spent(first, repeats)
            timed.append(Pair(earlier, later))
        else:
            timed.append(Pair(spent(first, repeats), spent(second, repeats)))
    return timed


def spent(work: Work, repeats: int = 1) -> Spent:
    """Return the seconds of one run, the mean of some; the CPU time of processes that it started and ended counts."""
    cpu, wall = cpu_seconds(), time.perf_counter()
    for _ in range(repeats):
        work()
    return Spent((cpu_seconds() - cpu) / repeats, (time.perf_counter() - wall) / repeats)


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    usages = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def ratio(
    name: str,
    pairs: Sequence[Pair],
    goal: float | None = None,
    better: Literal["higher", "lower"] = "lower",
    clock: Literal["cpu", "wall"] = "cpu",
) -> Row:
    """Return the first side's time over the second's as a row: the median over the pairs, with least and largest.

    >>> pair = Pair(Spent(3.0, 4.0), Spent(2.0, 4.0))
    >>> ratio("slow over fast", [pair], goal=1.1)
    Row(name='slow over fast', value=1.5, low=1.5, high=1.5, goal=1.1, better='lower', note='CPU 3000 to 2000 ms; ...
    """
    ratios = {kind: _ratios(pairs, kind) for kind in ("cpu", "wall")}
    sides = [statistics.median(getattr(side, clock) for side in each) for each in zip(*pairs, strict=True)]
    # Workers are children of a server: what they spend is no CPU time of this process.
    beside = f" wall {statistics.median(ratios['wall']):.2f};" if clock == "cpu" else ""
    spelled = {"cpu": "CPU", "wall": "wall"}[clock]
    note = f"{spelled} {_milliseconds(sides[0])} to {_milliseconds(sides[1])} ms;{beside} {len(pairs)} pairs"
    return row(name, ratios[clock], goal, better, note)


def row(
    name: str,
    values: Sequence[float],
    goal: float | None = None,
    better: Literal["higher", "lower"] = "lower",
    note: str = "",
) -> Row:
    """Return the median of some values, with the least and the largest, as a row."""
    return Row(name, statistics.median(values), min(values), max(values), goal, better, note)


def peak_memory(side: Side) -> Memory:
    """Run a side once in a fresh process (Linux) and return what memory it held."""
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), one_thread) as pool:
        return pool.submit(_memory_of, side).result()


def peak_of_command(*command: str) -> int:
    """Run a command and return the bytes that it and its workers held at most; what they share counts once (Linux)."""
    return max(sum(map(_proportional, processes)) for processes in _while_it_runs(command))


def spent_by_command(*command: str) -> Spent:
    """Run a command and return its seconds; the CPU time of its workers, which are no children of its own, counts."""
    start, cpu = time.perf_counter(), dict[psutil.Process, float]()
    for processes in _while_it_runs(command):
        for process in processes:
            with contextlib.suppress(psutil.Error):  # it has just ended: what was seen last counts
                cpu[process] = sum(process.cpu_times()[:2])
    return Spent(sum(cpu.values()), time.perf_counter() - start)


def _while_it_runs(command: Sequence[str]) -> Iterator[list[psutil.Process]]:
    """Run a command, and yield its processes again and again."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        root = psutil.Process(started.pid)
        yield [root]
        while started.poll() is None:
            yield [root, *_children(root)]
            time.sleep(SAMPLED)
    if started.returncode:
        raise subprocess.CalledProcessError(started.returncode, command)


def _children(process: psutil.Process) -> list[psutil.Process]:
    children: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):  # it has just ended
        children = process.children(recursive=True)
    return children


def _proportional(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return int(process.memory_full_info().pss)
    return 0


def one_thread() -> None:
    """Let numerical libraries that are imported from here on take one thread, so that CPU times compare."""
    os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")})


def _memory_of(side: Side) -> Memory:
    work = side()
    prepared = _status("VmRSS")
    work()
    return Memory(prepared, _status("VmHWM"))


def _status(field: str) -> int:
    # Not getrusage: its maximum is handed down from the parent process.
    match = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert match is not None
    return 1024 * int(match[1])


def _ratios(pairs: Sequence[Pair], clock: str) -> list[float]:
    return [getattr(pair.first, clock) / getattr(pair.second, clock) for pair in pairs]


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"
