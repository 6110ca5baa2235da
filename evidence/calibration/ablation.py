"""What each ingredient of the search for transitions is worth: the rows of the calibration without it.

`python -m evidence.calibration.ablation [repetitions] [words]` takes out one ingredient after another, whose name
holds all the
words, and prints a row of the table of docs/records/statistics.md for each. All see the same curves.
"""

import multiprocessing
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any

INGREDIENTS: dict[str, dict[str, Any]] = {
    "nothing is left out": {},
    "noise: a window of a higher level": {"WINDOWS": (), "IN_WINDOWS": ()},
    "noise: a level that grows or shrinks": {"GROWTHS": (0.0,)},
    "noise: correlation": {"NOISE_CORRELATIONS": (0.0,)},
    "noise: several kinds in an interval": {"MOST_NOISES": 1},
    "outliers are set aside": {"STANDS_OUT": float("inf")},
    "abrupt onsets on the grid": {"TAILS": ()},
    "narrow transitions at checkpoints": {"NARROW": 0.0},
    "significant once refined": {"COARSE": 1},
    "several at once": {"CORRELATED": 2.0},
    "staircases": {"STAIRS": ()},
    "a second look behind a large fall": {"REST": -1.0},
    "backgrounds of two columns": {"RIVAL": 2.0},
    "slight turns count less": {"SLIGHT": 0},
    "finer grids": {"FINER_GRIDS": (1,), "NEGLIGIBLE": (0.0,)},
    "tempered likelihood": {"TEMPER": 1.0},
    "criterion: share within a ratio": {"share": 0},
    "criterion: faster than around": {"stands_out": 0},
    "criterion: beyond a random walk": {"walk": -1e9},
    "criterion: lasting": {"lasting": -1e9},
    "criterion: checkpoints before": {"preceding": 0},
    "criterion: above the noise": {"peak": 0},
    "criteria, all of these": {"share": 0, "stands_out": 0, "walk": -1e9, "lasting": -1e9, "preceding": 0, "peak": 0},
}
"""Ingredient -> what takes it out: constants of the room, in capitals, or thresholds of `StageCriteria`."""

PASSED_OVER = re.compile(r"null .* (12|16|20|150)$|boundaries|Pythia|answers|questions|clipped")
"""Cases that are not measured: nulls at other numbers of checkpoints than 60, and those of
`evidence.calibration.apart` that
take longest."""

WITHIN = 0.02
"""How far a row may move before it counts as another one."""


def take_out(name: str) -> None:
    """Take an ingredient out of this process, which has searched for nothing yet."""
    from stagewise.statistics import _constants
    from stagewise.statistics._criteria import DEFAULT

    for key, value in INGREDIENTS[name].items():
        if key.isupper():
            setattr(_constants, key, value)
        else:
            object.__setattr__(DEFAULT, key, value)


def rows(name: str, repetitions: int) -> dict[str, float]:
    """Return the rows of onsets without an ingredient: of nulls at 60 checkpoints, and of all that are planted."""
    take_out(name)
    from evidence.calibration.apart import jobs as of_apart
    from evidence.calibration.bumps import jobs as of_bumps
    from evidence.calibration.onsets import jobs as of_onsets

    found: dict[str, float] = {}
    for case, job in (*of_onsets(), *of_apart(), *of_bumps()):
        if not PASSED_OVER.search(case):
            found |= {row.name: row.value for row in job(repetitions) if "bias" not in row.name}
    return found


def line(name: str, without: dict[str, float], whole: dict[str, float]) -> str:
    """Return the row of the table: means of shares, and how many rows have moved, for the worse and for the better."""

    def mean(words: str) -> str:
        values = [value for row, value in without.items() if words in row and "logged" not in row]
        return f"{sum(values) / len(values):.3f}"

    worse = better = 0
    # Of transitions that are hardly found no coverage is told.
    for row, value in ((row, value) for row, value in without.items() if row in whole):
        change = (value - whole[row]) * (-1 if "false" in row or "more than" in row else 1)
        worse, better = worse + (change < -WITHIN), better + (change > WITHIN)
    means = (mean(words) for words in ("false onsets", "found", "more than planted", "covered t50"))
    return f"| {name} | {' | '.join(means)} | {worse} | {better} |"


def main(repetitions: int, words: list[str]) -> None:
    """Print the table, an ingredient in a process of its own after another."""
    nothing, *ingredients = INGREDIENTS
    names = [nothing, *(name for name in ingredients if all(word in name for word in words))]
    print("| without | false | found | more than planted | t50 covered | rows that are worse | better |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    spawned, whole = multiprocessing.get_context("spawn"), dict[str, float]()
    with ProcessPoolExecutor(1, mp_context=spawned, max_tasks_per_child=1) as pool:
        for name, without in zip(names, pool.map(rows, names, [repetitions] * len(names)), strict=True):
            whole = whole or without
            print(line(name, without, whole), flush=True)


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    main(numbers[0] if numbers else 10, [word for word in sys.argv[1:] if not word.isdigit()])
