"""Known public suites of checkpoints: tokens a step, stages that go on counting, faults, each with its source.

They are the rows of `suites.csv`.
"""

import csv
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple


class Suite(NamedTuple):
    """The known facts of the repositories of a suite.

    Args:
        repositories: a pattern of their names, as EleutherAI/pythia-*.
        sizes: numbers of parameters, as the names of the repositories say them.
        checkpoints: which there are, in words.
        seeds: how many.
        tokens_per_step: None where it differs between models, or names of revisions say it.
        join: branches whose steps are one count.
        faults: known ones, with the thread that tells them.
        source: where this is said.
    """

    repositories: str
    sizes: str
    checkpoints: str
    seeds: str
    tokens_per_step: int | None
    join: tuple[str, ...]
    faults: str
    source: str


@cache
def suites() -> list[Suite]:
    """Return the known suites."""
    with Path(__file__).with_suffix(".csv").open(encoding="utf8", newline="") as file:
        return [_suite({name: text.strip() for name, text in row.items()}) for row in csv.DictReader(file)]


def suite_of(repository: str) -> Suite | None:
    """Return the first suite whose pattern fits the name of a repository, None where none is known.

    >>> suite_of("EleutherAI/pythia-160m").tokens_per_step
    2097152
    """
    return next((suite for suite in suites() if fnmatchcase(repository.lower(), suite.repositories.lower())), None)


def _suite(row: dict[str, Any]) -> Suite:
    tokens, join = row["tokens_per_step"], row["join"]
    parts = tuple(part.strip() for part in join.split(",")) if join else ()
    return Suite(**{**row, "tokens_per_step": int(tokens) if tokens else None, "join": parts})
