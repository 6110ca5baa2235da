"""`make torture`: hundreds of kills, refused writes, races and flipped bits; a table of what came, status 1 if anything
was lost or wrong."""

import argparse
import collections
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from evidence.torture import trials
from evidence.torture.trees import Tree, differing, tree
from evidence.torture.trials import Child, command, copied, ended, one_line

Outcomes = collections.Counter[str]

GOOD = (
    "resumed with the same bytes",
    "refused in a line, then the same bytes",
    "one writes, the other says who",
    *("noticed and named", "made again, and named", "harmless: the same bytes", "the same bytes"),
)
"""What may come of a trial. All else is lost or wrong."""


SWEPT = [*trials.SHORT, "--no-restricted"]


class Torture:
    """The commands, the folders that they make undisturbed, and how long each takes."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.draws, self.seed = root, random.Random(seed), seed
        self.work = root / "work" / "run"
        self.runs: dict[str, Callable[[], None]] = {
            "train": command("train", "markov", "--folder", str(self.work), *trials.TRAIN),
            "measure": command("measure", str(self.work), *trials.PROBES),
            "report": command("report", str(self.work)),
        }
        self.before: dict[str, Path] = {}
        self.after: dict[str, Tree] = {}
        self.seconds: dict[str, float] = {}
        for name, run in self.runs.items():
            self.before[name] = copied(self.work, root / f"before-{name}") if self.work.exists() else root / "none"
            start = time.monotonic()
            result = ended(run)
            self.seconds[name] = time.monotonic() - start
            if result.status:
                raise SystemExit(f"{name} fails undisturbed:\n{result.printed}")
            self.after[name] = tree(self.work)
        self.whole = copied(self.work, root / "whole")

    def start_over(self, name: str) -> None:
        """Bring the folder to what it was before a command."""
        trials.emptied(self.work)
        if self.before[name].exists():
            copied(self.before[name], self.work)

    def finish(self, name: str) -> str:
        """Run a command to its end: what became of the folder."""
        result = ended(self.runs[name])
        if result.status:
            return f"LOST: {name} ends with {result.status}: {result.printed[-300:]}"
        wrong = differing(tree(self.work), self.after[name])
        return f"WRONG: {name} gives other bytes in {', '.join(wrong[:3])}" if wrong else "resumed with the same bytes"

    def kills(self, name: str, number: int, chain: int = 4) -> Iterator[str]:
        """Kill a command at random moments, a few times in a row, and then let it finish."""
        done = 0
        while done < number:
            self.start_over(name)
            row = 0
            for _ in range(chain):
                row += trials.killed(self.runs[name], self.seconds[name], self.draws)
            outcome = self.finish(name)
            yield from [outcome] * row
            done += row

    def full_disks(self, name: str, number: int) -> Iterator[str]:
        """Let the system refuse files above a random size, in the midst of the library that writes them."""
        for _ in range(number):
            self.start_over(name)
            result = ended(self.runs[name], trials.small_disk(int(2000 * 60 ** self.draws.random())))
            if result.status not in (0, 2) or (result.status == 2 and not one_line(result.printed)):
                yield f"LOST: {name} on a full disk ends with {result.status}: {result.printed[-300:]}"
            elif (outcome := self.finish(name)) != GOOD[0]:
                yield outcome
            else:
                yield GOOD[1] if result.status else GOOD[0]

    def races(self, name: str, number: int) -> Iterator[str]:
        """Start a command twice, at the same time or nearly."""
        for _ in range(number):
            self.start_over(name)
            first = Child(self.runs[name])
            time.sleep(self.draws.uniform(0, self.seconds[name] / 4))
            results = [Child(self.runs[name]).wait(), first.wait()]
            refused = [result for result in results if result.status]
            if len(refused) > 1 or any("Wait until it has ended" not in result.printed for result in refused):
                yield f"LOST: of two that {name}: {[result.printed[-200:] for result in refused]}"
            elif wrong := differing(tree(self.work), self.after[name]):
                yield f"WRONG: two that {name} give other bytes in {', '.join(wrong[:3])}"
            else:
                yield GOOD[2] if refused else GOOD[0]

    def flips(self, number: int) -> Iterator[str]:
        """Flip one bit of a finished run folder, then train, measure and report again."""
        for _ in range(number):
            copied(self.whole, self.work)
            path, _ = self.draws.choice(trials.places(self.work))
            trials.flipped(path, self.draws)
            yield trials.noticed(path, self.work, list(self.runs.values()), tree(self.whole))

    def workers(self, number: int) -> Iterator[str]:
        """Kill workers of a sweep, or the sweep itself, and let it finish."""
        folder = self.root / "sweep"
        run = command("series", "sweep", "markov", "--folder", str(folder), "--set", "plan.seeds.init=0,1", *SWEPT)
        reference, seconds, done = None, 0.0, 0
        while done < number:
            trials.emptied(folder)
            row = 0
            for _ in range(0 if reference is None else 3):
                row += trials.killed_within(run, seconds, self.draws)
            start = time.monotonic()
            result = ended(run, trials.fork_workers)
            if result.status:
                yield f"LOST: the sweep ends with {result.status}: {result.printed[-300:]}"
            elif reference is None:
                reference, seconds = tree(folder), time.monotonic() - start
            elif wrong := differing(tree(folder), reference):
                yield f"WRONG: the sweep gives other bytes in {', '.join(wrong[:3])}"
            else:
                yield from ["resumed with the same bytes"] * row
            done += row + bool(result.status)

    def again(self) -> Iterator[str]:
        """Make the run again from its record, in a sweep, and in another process: the same checkpoints."""
        short = self.root / "short"
        ended(command("train", "markov", "--folder", str(short), *trials.SHORT))
        pairs = (
            (self.whole, command("train", str(self.whole / "run.json"), "--folder", str(self.root / "1"))),
            (short, command("series", "sweep", "markov", "--folder", str(self.root / "2"), *SWEPT)),
        )
        for number, (reference, run) in enumerate(pairs, start=1):
            result = ended(run, trials.fork_workers)
            same = _weights(self.root / str(number)) == _weights(reference)
            yield "the same bytes" if same else f"WRONG: {result.printed[-300:]}"


def _weights(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*.safetensors")}


def main() -> int:
    """Run all trials, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the random moments and places")
    parser.add_argument("--part", type=float, default=1.0, help="part of the number of trials")
    parser.add_argument("--only", default="", help="words of the kinds of trial to do, as in flipped")
    chosen = parser.parse_args()
    trials.preload()
    signal.signal(signal.SIGINT, signal.default_int_handler)

    part: float = chosen.part

    def of(number: int) -> int:
        return max(1, round(number * part))

    failures: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        torture = Torture(Path(scratch), chosen.seed)
        kinds = {
            "killed while training": torture.kills("train", of(90)),
            "killed while measuring": torture.kills("measure", of(60)),
            "killed while reporting": torture.kills("report", of(40)),
            "worker or sweep killed": torture.workers(of(20)),
            "disk full while training": torture.full_disks("train", of(20)),
            "disk full while measuring": torture.full_disks("measure", of(20)),
            "disk full while reporting": torture.full_disks("report", of(20)),
            "two that train": torture.races("train", of(20)),
            "two that measure": torture.races("measure", of(20)),
            "two that report": torture.races("report", of(10)),
            "one bit flipped": torture.flips(of(100)),
            "made again": torture.again(),
        }
        print(f"{'what was tried':<26} {'times':>5}  what came")
        for kind, outcomes in kinds.items():
            if chosen.only not in kind:
                continue
            counted = Outcomes(outcomes)
            failures += [f"{kind}: {outcome}" for outcome in counted if outcome not in GOOD]
            for row, (outcome, times) in enumerate(sorted(counted.items(), key=lambda each: -each[1])):
                print(f"{kind if row == 0 else '':<26} {times:>5}  {outcome}", flush=True)
    print(f"{len(failures)} kinds of loss" if failures else "nothing was lost, nothing silently wrong")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
