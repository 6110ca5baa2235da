"""Trials of what may go wrong, each in a process forked from one that has imported everything: the command line is run
by its own entry point, and really killed, refused space, raced by another, or given a folder with a flipped bit."""

import contextlib
import importlib
import multiprocessing
import os
import pkgutil
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import stagewise
from evidence.torture.trees import Tree, differing, tree
from stagewise.checkpoints._checksums import LIST


def _settings(steps: int, save: str) -> list[str]:
    fields = ("task.n_sequences=64", "plan.batch_size=8", "task.length=6", f"plan.save={save}")
    return ["--quiet", "--steps", str(steps), *(word for field in fields for word in ("--set", field))]


TRAIN, SHORT = _settings(24, "[1,2,4,8,12,16,20]"), _settings(3, "[]")
"""Of a run, and of the runs of a sweep, all of whose probes are measured."""

PROBES = ["--quiet", "--only", "Loss", "--only", "KLToReference", "--only", "HeadSpecialisation"]
HANGS = 300
"""Seconds after which a command of two seconds counts as hanging."""


class Ended(NamedTuple):
    """How a command ended: its exit status (minus the signal that ended it) and what it printed."""

    status: int
    printed: str


def command(*arguments: str) -> Callable[[], None]:
    """Return what runs the command line in this process."""

    def run() -> None:
        import torch

        from stagewise.cli.app import app

        torch.set_num_threads(1)
        app(list(arguments))

    return run


def preload() -> None:
    """Import what the commands import, once for all children: a fork beside a thread that imports may wait for ever."""
    for name in ("circuitsvis", "matplotlib.figure", "scipy.stats", "sklearn.cluster", "sklearn.metrics"):
        importlib.import_module(name)
    for module in pkgutil.walk_packages(stagewise.__path__, "stagewise."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def fork_workers() -> None:
    """Let the workers of a sweep be forked too, in this process: a new interpreter takes seconds to import torch."""
    multiprocessing.get_context = lambda method=None: fork_context  # type: ignore[assignment]


fork_context = multiprocessing.get_context("fork")


def workers_of(process: int) -> list[int]:
    """Return the processes that a process has started."""
    try:
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


class Child:
    """A process that runs a function, its output in a file."""

    def __init__(self, run: Callable[[], None], before: Callable[[], None] = lambda: None) -> None:
        self.output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the child has ended
        sys.stdout.flush()
        sys.stderr.flush()
        self.process = os.fork()
        if self.process == 0:
            self._run(run, before)

    def _run(self, run: Callable[[], None], before: Callable[[], None]) -> None:
        status = 1
        try:
            os.setsid()  # a pool that is broken signals its group
            os.dup2(self.output.fileno(), 1)
            os.dup2(self.output.fileno(), 2)
            sys.stdout, sys.stderr = (os.fdopen(each, "w", buffering=1, closefd=False) for each in (1, 2))
            warnings.simplefilter("default")  # a person's process has no filters of a test's
            before()
            run()
            status = 0
        except SystemExit as ending:
            status = ending.code if isinstance(ending.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                sys.stderr.flush()
            os._exit(status)

    def kill(self) -> None:
        """End it as a power cut would."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)

    def wait(self, seconds: float = HANGS, ending: int = signal.SIGABRT) -> Ended:
        """Wait until it has ended; one that takes longer is ended by a signal, and its status says so."""
        deadline = time.monotonic() + seconds
        while (done := os.waitpid(self.process, os.WNOHANG))[0] == 0:
            if time.monotonic() > deadline:
                os.kill(self.process, ending)
            time.sleep(0.002)
        _, status = done
        self.output.seek(0)
        printed = self.output.read().decode(errors="replace")
        self.output.close()
        return Ended(os.waitstatus_to_exitcode(status), printed)

    def end_group(self) -> None:
        """End what it has started and left, and wait until that is gone."""
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.killpg(self.process, signal.SIGKILL)
                time.sleep(0.002)


def ended(run: Callable[[], None], before: Callable[[], None] = lambda: None) -> Ended:
    """Run a function in a child to its end."""
    return Child(run, before).wait()


def killed(run: Callable[[], None], seconds: float, draws: random.Random) -> bool:
    """Kill a command at a random moment; whether it had not ended before."""
    child = Child(run)
    time.sleep(draws.uniform(0, seconds))
    child.kill()
    return child.wait().status == -signal.SIGKILL


def killed_within(run: Callable[[], None], seconds: float, draws: random.Random) -> bool:
    """Kill one of a sweep's workers at a random moment, or all of it; whether it had not ended before."""
    child = Child(run, fork_workers)
    time.sleep(draws.uniform(0, seconds))
    workers = workers_of(child.process)
    # Forked workers hold each other's ends of the pipe by which spawned ones notice that their sweep is gone.
    for victim in draws.choice([[worker] for worker in workers] + [[child.process, *workers]]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    return child.wait().status != 0


def small_disk(limit: int) -> Callable[[], None]:
    """Return what lets the system refuse every file above a size, in the midst of whatever library writes it."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def flipped(path: Path, draws: random.Random) -> None:
    """Flip one bit."""
    content = bytearray(path.read_bytes())
    bit = draws.randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def places(folder: Path) -> list[tuple[Path, int]]:
    """Return the files of a run folder with their sizes."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [(path, size) for path in files if (size := path.stat().st_size)]


def copied(folder: Path, to: Path) -> Path:
    """Copy a folder in the place of another."""
    shutil.rmtree(to, ignore_errors=True)
    return Path(shutil.copytree(folder, to))


def emptied(folder: Path) -> None:
    """Remove a folder."""
    shutil.rmtree(folder, ignore_errors=True)


def noticed(path: Path, folder: Path, runs: Sequence[Callable[[], None]], reference: Tree) -> str:
    """Run commands on a folder in which one file has a flipped bit: say what came of it.

    A list of checksums keeps a flipped bit in a line of earlier contents.

    Args:
        path: of the file.
        folder: of the run.
        runs: the commands that make it what it is.
        reference: what it was before.
    """
    named = False
    for run in runs:
        result = ended(run)
        named = named or (path.name in result.printed and "damaged" in result.printed)
        if result.status:
            refused = one_line(result.printed) and named
            return "noticed and named" if refused else f"LOST: {path.name}: {result.printed[-300:]}"
    wrong = differing(tree(folder), reference)
    if path.name == LIST:
        wrong = [name for name in wrong if name != path.relative_to(folder).as_posix()]
    if wrong:
        return f"WRONG: a bit of {path.name} silently changes {', '.join(wrong[:3])}"
    return "made again, and named" if named else "harmless: the same bytes"


def one_line(printed: str) -> bool:
    """Whether a command that was refused something said so without a traceback."""
    return "Traceback" not in printed and any(line.startswith("stagewise: ") for line in printed.splitlines())
