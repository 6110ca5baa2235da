"""The tables of docs/records/statistics.md from what the calibration wrote: `python -m evidence.calibration.tables
[file]`."""

import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from evidence.calibration import apart
from evidence.calibration.cases import NOISES, PLANTED, SMOOTH
from evidence.calibration.onsets import FEW, LOGGED, NUMBERS, RISES
from evidence.calibration.rows import Row
from evidence.calibration.specials import HELD_OUT, SPECIALS

SPACINGS = ("lin", "log")
SINGLE = (
    *("false boundaries", "boundaries", "stages", "exponents covered:", "false head", "head events"),
    *("false discoveries", "found among", "p < .05"),
)
"""What the rows of the last table begin with, in its order."""

Rows = Mapping[str, Row]


def main(path: Path) -> None:
    """Print the tables, in the order of the page; of a file that holds the shapes apart alone, theirs."""
    rows = {row["name"]: Row(**row) for row in json.loads(path.read_text(encoding="utf8"))}
    whole = (of_smooth, of_other_nulls, of_planted, of_few, of_single)
    rest = () if path.stem == "apart" else tuple(table(rows) for table in whole)
    for table in (of_apart(rows), *rest):
        print("\n".join(table), end="\n\n")


def of_smooth(rows: Rows) -> Iterator[str]:
    """Yield false onsets by noise, spacing and number of checkpoints, and the shape that has most of them."""
    heads = "false of all | worst shape | logged: false of all | worst shape"
    yield f"| noise | spacing | checkpoints | {heads} |\n|{' --- |' * 7}"
    false, total = [0, 0], 0
    for number, spacing, noise in itertools.product(NUMBERS, SPACINGS, NOISES):
        cells = []
        for i, start in enumerate(("", LOGGED)):
            own = {shape: rows[f"{start}false onsets: {shape}, {noise}, {spacing} {number}"] for shape in SMOOTH}
            count, of = (sum(numbers) for numbers in zip(*map(_counted, own.values()), strict=True))
            worst = max(own, key=lambda shape: own[shape].value)
            cells += [f"{count} of {of}", f"{own[worst].value:.2f} ({worst})" if own[worst].value else "0.00"]
            false[i] += count
        yield f"| {noise} | {spacing} | {number} | {' | '.join(cells)} |"
        total += of
    yield f"\nTogether {false[0]} of {total}; as logged curves {false[1]}."


def of_other_nulls(rows: Rows) -> Iterator[str]:
    """Yield false onsets of the other nulls by spacing."""
    yield f"| null | linear | log | logged, linear | logged, log |\n|{' --- |' * 5}"
    for kind, names in (("", SPECIALS), ("held out, ", HELD_OUT)):
        for name in names:
            titles = [f"{kind}false onsets: {name}, {spacing} 60" for spacing in SPACINGS]
            cells = [f"{rows[start + title].value:.2f}" for start in ("", LOGGED) for title in titles]
            yield f"| {kind}{name} | {' | '.join(cells)} |"


def of_planted(rows: Rows) -> Iterator[str]:
    """Yield how often planted transitions are found, how often more, and how often their times are covered."""
    parts = "found | more than planted | t10, t50, t90"
    yield f"| planted | noise | linear: {parts} | log: {parts} |\n|{' --- |' * 8}"
    for planted, noise in itertools.product(PLANTED, RISES):
        titles = (f"{planted}, {noise}, {spacing} 60" for spacing in SPACINGS)
        cells = [cell for title in titles for cell in _planted(rows, title)]
        yield f"| {planted} | {noise} | {' | '.join(cells)} |"


def of_few(rows: Rows) -> Iterator[str]:
    """Yield how often planted transitions are found with few checkpoints."""
    cases = list(itertools.product(FEW, SPACINGS))
    heads = " | ".join(f"{number}, {'linear' if spacing == 'lin' else spacing}" for number, spacing in cases)
    yield f"| planted | {heads} |\n|{' --- |' * (1 + len(cases))}"
    for name in PLANTED:
        found = [rows[f"found: {name}, 20 times, {spacing} {number}"].value for number, spacing in cases]
        yield f"| {name} | {' | '.join(f'{value:.2f}' for value in found)} |"


def of_apart(rows: Rows) -> Iterator[str]:
    """Yield the shapes that nothing was fitted to, by spacing: false onsets, then planted ones, then boundaries."""
    spacings = tuple(apart.SPACINGS)
    heads = " | ".join(f"{start}{spacing}" for start in ("", LOGGED) for spacing in spacings)
    yield f"| null | {heads} |\n|{' --- |' * (1 + 2 * len(spacings))}"
    for name in apart.NULLS:
        nulls = [f"apart, false onsets: {name}, {spacing}" for spacing in spacings]
        cells = [f"{rows[start + title].value:.2f}" for start in ("", LOGGED) for title in nulls]
        yield f"| {name} | {' | '.join(cells)} |"
    heads = " | ".join(f"{spacing}: found | more than planted | t10, t50, t90" for spacing in spacings)
    yield f"\n| planted | values | {heads} |\n|{' --- |' * (2 + 3 * len(spacings))}"
    for name, values in itertools.product(apart.PLANTED, apart.VALUES):
        cells = [cell for spacing in spacings for cell in _planted(rows, f"apart, {name}, {values}, {spacing}")]
        yield f"| {name} | {values} | {' | '.join(cells)} |"
    yield "\n| boundaries | as many as planted | covered |\n| --- | --- | --- |"
    for name in apart.BOUNDARIES:
        titles = f"apart, as many boundaries as planted: {name}", f"apart, boundaries covered: {name}"
        yield f"| {name} | {' | '.join(f'{rows[title].value:.2f}' for title in titles)} |"


def of_single(rows: Rows) -> Iterator[str]:
    """Yield boundaries, laws, heads and p-values, a row each."""
    yield "| case | share | 95 % | n |\n| --- | --- | --- | --- |"
    for start in SINGLE:
        for name, row in rows.items():
            if name.startswith(start):
                yield f"| {name} | {row.value:.2f} | {row.low:.2f} to {row.high:.2f} | {row.repetitions} |"


def _counted(row: Row) -> tuple[int, int]:
    return round(row.value * row.repetitions), row.repetitions


def _planted(rows: Rows, title: str) -> list[str]:
    """Return how often a planted transition is found, how often more are, and how often its times are covered."""
    covered = [rows.get(f"covered {part}: {title}") for part in ("t10", "t50", "t90")]
    times = ", ".join(f"{row.value:.2f}" for row in covered if row)
    return [*(f"{rows[f'{what}: {title}'].value:.2f}" for what in ("found", "more than planted")), times]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/calibration/calibration.json"))
