"""Known public suites of checkpoints: tokens a step, stages that go on counting, faults, each with its source.

They are the rows of `suites.csv`; rows of a file of your own, which the variable STAGEWISE_SUITES names, come first.
"""

import csv
import os
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

OWN = "STAGEWISE_SUITES"


class Suite(NamedTuple):
    """The known facts of the repositories of a suite.

    Args:
        repositories: a pattern of their names, as EleutherAI/pythia-*.
        sizes: numbers of parameters, as the names of the repositories say them; a file of your own may leave them out.
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


def suites() -> list[Suite]:
    """Return the known suites, the user's first.

    Raises:
        ValueError: a file lacks a column, or tokens a step are no number.
        OSError: the user's file cannot be read.
    """
    own = os.environ.get(OWN)
    return [*(_read(Path(own)) if own else ()), *_read(Path(__file__).with_suffix(".csv"))]


def suite_of(repository: str) -> Suite | None:
    """Return the first suite whose pattern fits the name of a repository, None where none is known.

    >>> suite_of("EleutherAI/pythia-160m").tokens_per_step
    2097152
    """
    return next((suite for suite in suites() if fnmatchcase(repository.lower(), suite.repositories.lower())), None)


@cache
def _read(path: Path) -> tuple[Suite, ...]:
    with path.open(encoding="utf8", newline="") as file:
        rows = list(csv.DictReader(file))
    try:
        return tuple(_suite(row) for row in rows)
    except (KeyError, ValueError) as reason:
        columns = ", ".join(Suite._fields)
        raise ValueError(f"{path} is no table of suites, whose columns are {columns}: {reason}") from None


def _suite(row: dict[str, str]) -> Suite:
    text = {name: row[name].strip() for name in Suite._fields if name != "sizes"}
    tokens, join = text.pop("tokens_per_step"), text.pop("join")
    parts = tuple(part.strip() for part in join.split(",")) if join else ()
    sizes = (row.get("sizes") or "").strip()
    return Suite(**text, sizes=sizes, tokens_per_step=int(tokens) if tokens else None, join=parts)
