"""The tables of docs/statistics.md from what the calibration wrote: `python -m tests.calibration.tables [file]`."""

import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.calibration import apart
from tests.calibration.cases import NOISES, PLANTED, SMOOTH
from tests.calibration.onsets import RISES
from tests.calibration.rows import Row
from tests.calibration.specials import HELD_OUT, SPECIALS

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
    rest = () if path.stem == "apart" else (of_smooth(rows), of_other_nulls(rows), of_planted(rows), of_single(rows))
    for table in (of_apart(rows), *rest):
        print("\n".join(table), end="\n\n")


def of_smooth(rows: Rows) -> Iterator[str]:
    """Yield false onsets by noise, spacing and number of checkpoints, and the shape that has most of them."""
    yield "| noise | spacing | checkpoints | false of all | worst shape |\n| --- | --- | --- | --- | --- |"
    false = total = 0
    for number, spacing, noise in itertools.product((60, 20, 150), SPACINGS, NOISES):
        own = {shape: rows[f"false onsets: {shape}, {noise}, {spacing} {number}"] for shape in SMOOTH}
        count, of = (sum(numbers) for numbers in zip(*map(_counted, own.values()), strict=True))
        worst = max(own, key=lambda shape: own[shape].value)
        most = f"{own[worst].value:.2f} ({worst})" if own[worst].value else "0.00"
        yield f"| {noise} | {spacing} | {number} | {count} of {of} | {most} |"
        false, total = false + count, total + of
    yield f"\nTogether {false} of {total}."


def of_other_nulls(rows: Rows) -> Iterator[str]:
    """Yield false onsets of the other nulls by spacing."""
    yield "| null | linear | log |\n| --- | --- | --- |"
    for name in SPECIALS:
        yield _both(name, [rows[f"false onsets: {name}, {spacing} 60"] for spacing in SPACINGS])
    for name in HELD_OUT:
        both = [rows[f"held out, false onsets: {name}, {spacing} 60"] for spacing in SPACINGS]
        yield _both(f"held out, {name}", both)


def of_planted(rows: Rows) -> Iterator[str]:
    """Yield how often planted transitions are found, how often more, and how often their times are covered."""
    parts = "found | more than planted | t10, t50, t90"
    yield f"| planted | noise | linear: {parts} | log: {parts} |\n|{' --- |' * 8}"
    for planted, noise in itertools.product(PLANTED, RISES):
        titles = (f"{planted}, {noise}, {spacing} 60" for spacing in SPACINGS)
        cells = [cell for title in titles for cell in _planted(rows, title)]
        yield f"| {planted} | {noise} | {' | '.join(cells)} |"


def of_apart(rows: Rows) -> Iterator[str]:
    """Yield the shapes that nothing was fitted to, by spacing: false onsets, then planted ones, then boundaries."""
    spacings = tuple(apart.SPACINGS)
    yield f"| null | {' | '.join(spacings)} |\n|{' --- |' * (1 + len(spacings))}"
    for name in apart.NULLS:
        cells = [f"{rows[f'apart, false onsets: {name}, {spacing}'].value:.2f}" for spacing in spacings]
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


def _both(name: str, both: list[Row]) -> str:
    return f"| {name} | {both[0].value:.2f} | {both[1].value:.2f} |"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/calibration/calibration.json"))
