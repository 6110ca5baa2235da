"""Runs of an experiment side by side, each of which keeps its own files."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tqdm.auto import tqdm

from stagewise.processes import several

Result = TypeVar("Result")


def run_each(run: Callable[..., Result], cases: Sequence[Any], workers: int, *, progress: bool) -> list[Result]:
    """Return the results of `run(case, progress=...)` in the order of the cases; `run` itself keeps files of a case.

    One process shows a bar for each run, several show one for all of them.
    """
    with several(min(workers, len(cases))) as pool:
        one = functools.partial(run, progress=progress and pool is None)
        results = pool.map(one, cases) if pool else map(one, cases)
        return list(tqdm(results, total=len(cases), disable=not progress or pool is None, unit="run"))
