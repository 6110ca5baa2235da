"""Kills before each file operation of each command that writes: `python -m evidence.torture.operations`.

A command is counted once, undisturbed: every file that it opens to write, renames, removes, links or syncs, and every
folder that it makes, in its folder. Then it is killed before one of these, for each of them, and run again to its end.
All files must be those of the undisturbed run, but for locks, lists of checksums and `resume.pt`.
"""

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evidence.torture import trials
from evidence.torture.trials import command, contents, copied, differing, ended

EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate", "os.symlink"}
"""Python's names of operations beside opening, of which an audit hook is told."""

PROBES = ["--quiet", "--only", "Loss", "--only", "AttentionTo"]
REPLAY = ["--from", "4", "--no-controls", "--quiet"]

COMMANDS: dict[str, tuple[str, list[str]]] = {
    "train": ("none", ["train", "markov", "--folder", "RUN", *trials.TRAIN]),
    "measure": ("train", ["measure", "RUN", *PROBES]),
    "report": ("measure", ["report", "RUN"]),
    "stages": ("measure", ["stages", "RUN"]),
    "densify": ("report", ["densify", "RUN", "--between", "2", "8", "--every", "1", *PROBES]),
    "intervene": ("report", ["cause", "intervene", "RUN", "--hold", "L0H0", *REPLAY]),
    "branch": ("report", ["cause", "branch", "RUN", "--set", "plan.learning_rate=0.002", *REPLAY]),
    "certify": ("report", ["cause", "certify", "RUN", "--from", "4", "--quiet"]),
    "sweep": ("none", ["series", "sweep", "markov", "--folder", "RUN", "--set", "plan.seeds.init=0,1", *trials.SHORT]),
}
"""Command -> the one whose folder it begins with, and its words; RUN is the folder."""


def hooked(folder: Path, last: int, count: Any) -> Callable[[], None]:
    """Return what makes a process count its operations in a folder, and end before one of them."""
    inside = str(folder)

    def operation(path: object) -> None:
        if isinstance(path, str | bytes | os.PathLike) and os.fsdecode(path).startswith(inside):
            if count.value == last:
                os.kill(os.getpid(), signal.SIGKILL)
            count.value += 1

    def told(event: str, arguments: tuple[Any, ...]) -> None:
        flags = arguments[2] if event == "open" and isinstance(arguments[2], int) else 0
        if event in EVENTS or flags & (os.O_WRONLY | os.O_RDWR):
            operation(arguments[0])

    def before() -> None:
        sync = os.fsync

        def counted(file: Any) -> None:
            number = file if isinstance(file, int) else file.fileno()
            operation(os.readlink(f"/proc/self/fd/{number}"))
            sync(file)

        os.fsync = counted  # type: ignore[assignment]
        sys.addaudithook(told)
        trials.fork_workers()

    return before


class Killing:
    """The folders that commands begin with and end with, undisturbed."""

    def __init__(self, root: Path) -> None:
        self.root, self.work = root, root / "work" / "run"
        self.count = multiprocessing.Value("i", 0, lock=False)
        self.made = {"none": root / "nothing"}

    def run_of(self, name: str) -> Callable[[], None]:
        """Return what runs a command."""
        return command(*(str(self.work) if word == "RUN" else word for word in COMMANDS[name][1]))

    def start_over(self, name: str) -> None:
        """Bring the folder to what it was before a command."""
        trials.emptied(self.work)
        if (before := self.made[COMMANDS[name][0]]).exists():
            copied(before, self.work)

    def operations(self, name: str) -> int:
        """Run a command undisturbed, after those whose folder it needs; return how many operations it has."""
        if COMMANDS[name][0] not in self.made:
            self.operations(COMMANDS[name][0])
        self.start_over(name)
        self.count.value = 0
        result = ended(self.run_of(name), hooked(self.work, -1, self.count))
        if result.status:
            raise SystemExit(f"{name} fails undisturbed:\n{result.printed}")
        self.made[name] = copied(self.work, self.root / f"made-{name}")
        return int(self.count.value)

    def state(self, name: str, place: int) -> str:
        """Kill a command before an operation, finish it, and say what came."""
        self.start_over(name)
        self.count.value = 0
        ended(self.run_of(name), hooked(self.work, place, self.count))
        result = ended(self.run_of(name), trials.fork_workers)
        if result.status:
            return f"operation {place}: ends with {result.status}: {result.printed[-300:]}"
        wrong = differing(self.work, contents(self.made[name]))
        return f"operation {place}: other bytes in {', '.join(wrong[:4])}" if wrong else "equal"


def main() -> int:
    """Kill all commands, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="kill before every so many operations")
    parser.add_argument("--only", nargs="*", default=list(COMMANDS), help="commands")
    chosen = parser.parse_args()
    trials.preload()
    print(f"{'command':<12} {'operations':>10} {'states':>7} {'equal':>6}  different", flush=True)
    different = 0
    with tempfile.TemporaryDirectory() as scratch:
        killing = Killing(Path(scratch).resolve())
        for name in chosen.only:
            operations = killing.operations(name)
            outcomes = [killing.state(name, place) for place in range(0, operations, chosen.every)]
            equal = Counter(outcomes)["equal"]
            different += len(outcomes) - equal
            print(f"{name:<12} {operations:>10} {len(outcomes):>7} {equal:>6}  {len(outcomes) - equal}", flush=True)
            for each in [outcome for outcome in outcomes if outcome != "equal"][:5]:
                print(f"    {each}", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
