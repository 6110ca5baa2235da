"""Kills before each file operation of each command that writes: `python -m evidence.torture.operations`.

A command is counted once, undisturbed: every file that it or a library opens to write, writes, syncs, renames, links,
cuts or removes, and every folder that it makes. Then it is killed before one of them, for each of them, and the same
command is given again. All files must be those of the undisturbed run: `trees.NORMAL` has what is no part of them.

A kill is one of four: as it is; with what was not synced lost, or torn in half, as after a power cut; or SIGTERM to the
whole group, and SIGKILL after a grace period, as a scheduler ends a job.
"""

import argparse
import dataclasses
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm

from evidence.calibration.certificates import planted
from evidence.torture import trees, trials
from evidence.torture.hook import NEVER, Hook, hooked
from evidence.torture.trials import Child, Ended, command, copied
from stagewise.training import train

RESULTS = Path("runs/torture/operations.jsonl")
"""A line a state that was tried, from which a program that was stopped goes on."""

PAGE = Path("docs/reliability.md")
BEGINS, ENDS = "<!-- operations -->", "<!-- end of operations -->"
"""Around the table in the page."""

KILLED, TORN, LOST, TERMINATED = "killed", "torn", "lost", "terminated"
KEPT = {TORN: 0.5, LOST: 0.0}
"""Kind of a power cut -> the part of unsynced bytes that is kept."""

GRACE = 5.0
"""Seconds from SIGTERM to SIGKILL."""

TERMINATED_EVERY = 7
"""Operations from one SIGTERM to the next: it ends a process without a handler as SIGKILL does."""


def _recipe(steps: int, save: str) -> list[str]:
    fields = ("task.n_sequences=32", "plan.batch_size=8", "task.length=6", "task.spans=[2,2]", f"plan.save={save}")
    return ["--quiet", "--steps", str(steps), "--heads", "2", *(word for field in fields for word in ("--set", field))]


RECIPE, SHORT = _recipe(12, "[2,4,8]"), _recipe(1, "[]")
PROBES = ["--quiet", "--only", "Loss", "--only", "AttentionTo"]
SEEDS = ["--set", "plan.seeds.init=0,1"]
REPLAY = ["--from", "16", "--quiet"]
ELSEWHERE = ["--tokens", "../sequences.npy", "--out", "elsewhere", *PROBES]

COMMANDS: dict[str, tuple[str, list[str]]] = {
    "train": ("nothing", ["train", "markov", "--folder", "run", *RECIPE]),
    "run": ("nothing", ["run", "markov", "--folder", "run", "--contexts", "1", *RECIPE, *PROBES[1:]]),
    "measure": ("train", ["measure", "run", "--sequences", "16", *PROBES]),
    "measure elsewhere": ("train", ["measure", "run", *ELSEWHERE]),
    "report": ("measure", ["report", "run"]),
    "report elsewhere": ("train", ["report", "run", *ELSEWHERE]),
    "report seeds": ("two runs", ["report", "run", "other", "--out", "seeds"]),
    "report log": ("nothing", ["report", "../log.csv", "--out", "log"]),
    "stages": ("measure", ["stages", "run", "--cause", "8=a warm-up"]),
    "stages log": ("nothing", ["stages", "../log.csv"]),
    "watch": ("train", ["watch", "run", "--once", *PROBES]),
    "watch log": ("nothing", ["watch", "../log.csv", "--once"]),
    "densify": ("report", ["densify", "run", "--between", "2", "8", "--every", "1", *PROBES]),
    "intervene": ("planted", ["cause", "intervene", "run", "--hold", "L0H0", "--no-controls", *REPLAY]),
    "branch": ("planted", ["cause", "branch", "run", "--set", "plan.learning_rate=0.02", "--no-controls", *REPLAY]),
    "certify": ("planted", ["cause", "certify", "run", *REPLAY]),
    "sweep": ("nothing", ["series", "sweep", "markov", "--folder", "run", "--no-restricted", *SEEDS, *SHORT]),
    "figure of a paper": ("nothing", ["papers", "scan-and-snap", "--figure", "9", "--folder", "paper", "--quiet"]),
    "audit": ("report", ["audit", "run"]),
}
"""Command -> the one whose files it begins with, and its words, given in a folder that is empty at first."""

PREPARED: dict[str, tuple[str, list[str]]] = {
    "measured patterns": ("train", ["measure", "run", "--quiet", "--only", "PatternClusters"]),
    "another run": ("measure", ["train", "markov", "--folder", "other", "--set", "plan.seeds.init=1", *RECIPE]),
    "two runs": ("another run", ["measure", "other", "--sequences", "16", *PROBES]),
}
"""Commands whose files others begin with, beside those."""


@dataclasses.dataclass(frozen=True)
class State:
    """A command killed before an operation, and what came of it when it was given again."""

    command: str
    operations: int
    place: int
    kind: str
    before: str
    came: str

    @property
    def hangs(self) -> bool:
        """Whether the second command did not end."""
        return self.came.startswith("hangs")


def results(path: Path = RESULTS) -> list[State]:
    """Return the states that were tried."""
    return [State(**json.loads(line)) for line in path.read_text("utf8").splitlines()] if path.exists() else []


class Killing:
    """The files that commands begin and end with, undisturbed; those on causes with a run that has a transition."""

    def __init__(self, root: Path, hook: Hook) -> None:
        self.root, self.work, self.hook = root, root / "work", hook
        self.made, self.seconds = {"nothing": root / "nothing"}, dict[str, float]()
        self.made["nothing"].mkdir()
        self.made["planted"] = root / "planted"
        train(planted((1.0, 1.0, 0.0), steps=40), self.made["planted"] / "run", progress=False)
        generator = np.random.default_rng(0)
        np.save(root / "sequences.npy", generator.integers(0, 8, (8, 6)))
        steps = np.arange(0, 400, 10)
        curves = zip(steps, 3 / (1 + np.exp((steps - 200) / 20)) + 0.01 * generator.normal(size=40), strict=True)
        (root / "log.csv").write_text("step,loss\n" + "".join(f"{step},{loss:.4f}\n" for step, loss in curves))

    def run_of(self, name: str) -> Callable[[], None]:
        """Return what gives a command in the folder."""
        run = command(*{**COMMANDS, **PREPARED}[name][1])

        def run_there() -> None:
            os.chdir(self.work)
            run()

        return run_there

    def start_over(self, name: str) -> None:
        """Bring the folder to what it was before a command."""
        copied(self.made[{**COMMANDS, **PREPARED}[name][0]], self.work)

    def child(self, name: str, place: int, number: int) -> Child:
        """Give a command whose group is signalled before an operation; no such place lets it end."""
        arm = self.hook.before(self.work, place, number)

        def before() -> None:
            trials.fork_workers()
            arm()

        return Child(self.run_of(name), before)

    def operations(self, name: str) -> int:
        """Give a command undisturbed, after those whose files it needs; return how many operations it has."""
        begins = {**COMMANDS, **PREPARED}[name][0]
        if begins not in self.made:
            self.operations(begins)
        self.start_over(name)
        start = time.monotonic()
        result = self.child(name, NEVER, signal.SIGKILL).wait()
        self.hook.disarm()
        self.seconds[name] = time.monotonic() - start
        if result.status:
            raise SystemExit(f"{name} fails undisturbed:\n{result.printed}")
        self.made[name] = copied(self.work, self.root / f"made {name}")
        return self.hook.count

    def states(self, name: str, operations: int, every: int, done: Sequence[State]) -> Iterator[State]:
        """Kill a command before its operations, give it again, and yield what came; those that are done are not."""
        reference = trees.tree(self.made[name])
        tried = {(state.place, state.kind) for state in done if state.operations == operations}
        damaged = set[tuple[str, int]]()
        for place in range(0, operations, every):
            if (place, KILLED) in tried:  # the last of each place
                continue
            self.start_over(name)
            still = trees.known(self.work)
            self._kill(name, place, signal.SIGKILL)
            before = trees.without_processes(self.hook.operation)
            sizes = trees.unsynced(self.work, {**still, **self.hook.synced()})
            new = {(trees.without_processes(each), (self.work / each).stat().st_size) for each in sizes} - damaged
            damaged |= new
            copied(self.work, self.root / "state")
            ends = [TERMINATED] if place // every % TERMINATED_EVERY == 0 else []
            for kind in [*(KEPT if new else ()), *ends, KILLED]:
                if kind == TERMINATED:
                    self.start_over(name)
                    self._kill(name, place, signal.SIGTERM)
                else:
                    copied(self.root / "state", self.work)
                if kind in KEPT:
                    trees.cut(self.work, sizes, KEPT[kind])
                yield State(name, operations, place, kind, before, self._came(name, reference))

    def _kill(self, name: str, place: int, number: int) -> None:
        child = self.child(name, place, number)
        child.wait(GRACE if number == signal.SIGTERM else trials.HANGS, signal.SIGKILL)
        self.hook.disarm()
        child.end_group()

    def _came(self, name: str, reference: trees.Tree) -> str:
        """Give a command again to its end, and say what came."""
        result: Ended = Child(self.run_of(name), trials.fork_workers).wait()
        if result.status == -signal.SIGABRT:
            return f"hangs: {result.printed[-300:]}"
        if result.status or "Traceback" in result.printed:
            return f"ends with {result.status}: {result.printed[-300:]}"
        wrong = trees.differing(trees.tree(self.work), reference)
        return f"other bytes in {', '.join(wrong[:4])}" if wrong else "equal"


def table(states: Sequence[State]) -> str:
    """Return the table of the page: a row a command, and one of all."""
    lines = ["| command | operations | states | equal | different | hanging |", "| --- | --- | --- | --- | --- | --- |"]
    by_name = {name: [state for state in states if state.command == name] for name in COMMANDS}
    for name, own in [*by_name.items(), ("**all**", list(states))]:
        if not own:
            continue
        equal, hanging = sum(state.came == "equal" for state in own), sum(state.hangs for state in own)
        operations = sum({state.command: state.operations for state in own}.values())
        numbers = operations, len(own), equal, len(own) - equal - hanging, hanging
        lines.append(f"| {name} | {' | '.join(f'{each:,}' for each in numbers)} |")
    return "\n".join(lines)


def write_page(states: Sequence[State]) -> None:
    """Write the table into the page."""
    before, _, rest = PAGE.read_text("utf8").partition(BEGINS)
    after = rest.partition(ENDS)[2]
    PAGE.write_text(f"{before}{BEGINS}\n\n{table(states)}\n\n{ENDS}{after}", "utf8")


def main() -> int:
    """Kill all commands, print the table, write it into the page, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--places", type=int, default=10_000, help="operations of a command, evenly spaced, at most")
    parser.add_argument("--only", nargs="*", default=list(COMMANDS), help="commands; the page is of all")
    parser.add_argument("--fresh", action="store_true", help="try again what was tried before")
    chosen = parser.parse_args()
    hook = hooked("evidence.torture.operations")
    trials.preload()
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    if chosen.fresh:
        RESULTS.unlink(missing_ok=True)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    failing: list[str] = []
    with tempfile.TemporaryDirectory(dir=memory) as scratch:
        killing = Killing(Path(scratch).resolve(), hook)
        for name in chosen.only:
            try:
                operations = killing.operations(name)
            except SystemExit as reason:
                failing.append(name)
                print(reason, flush=True)
                continue
            done = [state for state in results() if state.command == name and state.came == "equal"]
            with tqdm(desc=name, unit="state", mininterval=10) as bar, open(RESULTS, "a", encoding="utf8") as file:
                for state in killing.states(name, operations, -(-operations // chosen.places) or 1, done):
                    print(json.dumps(dataclasses.asdict(state)), file=file, flush=True)
                    bar.update()
                    if state.came != "equal":
                        print(f"{name}, {state.kind} before {state.before}: {state.came}", flush=True)
            print(f"{name}: {operations} operations, undisturbed {killing.seconds[name]:.1f} s", flush=True)
    states = list({(state.command, state.place, state.kind): state for state in results()}.values())
    print(table(states))
    if chosen.only == list(COMMANDS):
        write_page(states)
    return 1 if failing or any(state.came != "equal" for state in states) else 0


if __name__ == "__main__":
    sys.exit(main())
