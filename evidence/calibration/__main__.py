"""Simulate planted findings and nulls, print how often each is decided rightly, and write it down.

`python -m evidence.calibration [repetitions] [words]`: cases whose names hold all the words; two processes; what is
done
already is taken from `runs/calibration/`.
"""

import functools
import hashlib
import json
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from evidence.calibration.apart import jobs as of_apart
from evidence.calibration.bumps import jobs as of_bumps
from evidence.calibration.counted import jobs as of_counted
from evidence.calibration.densified import jobs as of_densified
from evidence.calibration.drawn import jobs as of_drawn
from evidence.calibration.emergence import jobs as of_emergence
from evidence.calibration.findings import jobs as of_findings
from evidence.calibration.homes import jobs as of_homes
from evidence.calibration.laws import jobs as of_laws
from evidence.calibration.lineages import jobs as of_lineages
from evidence.calibration.onsets import Job
from evidence.calibration.onsets import jobs as of_onsets
from evidence.calibration.periods import jobs as of_periods
from evidence.calibration.recut import jobs as of_recut
from evidence.calibration.rows import Row
from evidence.calibration.seeds import jobs as of_seeds

FOLDER = Path("runs/calibration")
NO_DECISION = {
    *("_frames.py", "stages.py", "__main__.py"),
    *("early_warning.py", "tables.py", "densified_bound.py", "ranks.py", "rivals.py"),
}
"""Modules that decide nothing about transitions; early warning and the bound for densified runs have their commands."""


def jobs() -> dict[str, Job]:
    """Return every case by its name."""
    areas = (
        *(of_onsets, of_findings, of_homes, of_seeds, of_lineages, of_emergence, of_laws),
        *(of_apart, of_densified, of_periods, of_bumps, of_drawn, of_counted, of_recut),
    )
    return {name: job for area in areas for name, job in area()}


@functools.cache
def code() -> str:
    """Return a hash of the code that finds transitions: another one is calibrated anew."""
    rooms = (*map(Path, ("stagewise/statistics", "stagewise/findings")), Path(__file__).parent)
    found = [path for room in rooms for path in room.rglob("*.py")]
    paths = [path for path in found if path.name not in NO_DECISION]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(paths))).hexdigest()[:12]


def run(name: str, repetitions: int) -> list[Row]:
    """Run one case, or read what it gave."""
    path = FOLDER / code() / f"{re.sub('[^a-zA-Z0-9.]+', '-', name)}.{repetitions}.json"
    if path.exists():
        return [Row(**row) for row in json.loads(path.read_text(encoding="utf8"))]
    rows = jobs()[name](repetitions)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([row._asdict() for row in rows]), encoding="utf8")
    return rows


def main(repetitions: int, words: list[str]) -> None:
    """Run the cases in two processes, print the table, write it for machines."""
    names = [name for name in jobs() if all(word in name for word in words)]
    rows = []
    with ProcessPoolExecutor(2) as pool:
        for one in pool.map(run, names, [repetitions] * len(names)):
            rows += one
            print("\n".join(map(str, one)), flush=True)
    missed = sum(row.value < row.goal if row.better == "higher" else row.value > row.goal for row in rows)
    print(f"{len(rows)} rows, {missed} of them miss their goal")
    target = FOLDER / f"{' '.join(words) or 'calibration'}.json"
    target.write_text(json.dumps([row._asdict() for row in rows], indent=1), encoding="utf8")
    print(target)


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    main(numbers[0] if numbers else 40, [word for word in sys.argv[1:] if not word.isdigit()])
