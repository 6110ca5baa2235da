"""Alarms on public records, looked at as they grew: how many of the runs that went well raise one.

`python -m evidence.records.alarms FOLDER [words]` prints a row an alarm of the records whose names hold all the words,
then how many there were in how many runs. A record is looked at ten times, each time a tenth longer, as `stagewise
watch --alarm` looks at a log. Heads and events that are missing are not asked for: logs hold no heads.
"""

import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from evidence.records.truth import truths_of
from stagewise.checkpoints.logged_curves import read_log
from stagewise.findings.alarms import alarms_of
from stagewise.models.process import one_thread
from stagewise.words import alarms_in_words

LOOKS = 10
"""Looks at a record while it grows."""


class Raised(NamedTuple):
    """The first alarm of a run: where it was looked at, and its line."""

    record: str
    run: str
    step: int
    line: str


def runs_of(path: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the tables of the runs of a record; none of what cannot be read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            table = read_log(path)
        except (ValueError, OSError):
            return
    for run, rows in table.groupby("run", sort=False):
        rows.attrs = table.attrs
        yield str(run), rows


def first_alarm(record: str, run: str, table: pd.DataFrame) -> Raised | None:
    """Return the first alarm of a run that is looked at while it grows."""
    steps = sorted(set(table["step"]))
    for look in range(1, LOOKS + 1):
        until = steps[max(0, len(steps) * look // LOOKS - 1)]
        part = table[table["step"] <= until]
        part.attrs = table.attrs
        if lines := alarms_in_words(alarms_of(part, None)):
            return Raised(record, run, int(until), "; ".join(lines))
    return None


def main(folder: Path, words: Sequence[str]) -> None:
    """Print the alarms of a folder of records, and their number."""
    one_thread()
    truths, number, raised = truths_of(folder), 0, list[Raised]()
    for name in sorted(truths):
        if all(word in name for word in words):
            for run, table in runs_of(folder / truths[name].file):
                number += 1
                if (alarm := first_alarm(name, run, table)) is not None:
                    raised.append(alarm)
                    print(f"{alarm.record}, {alarm.run}, seen at step {alarm.step}: {alarm.line}", flush=True)
    print(f"{len(raised)} of {number} runs of {len(truths)} records raise an alarm")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
