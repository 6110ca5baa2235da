"""Whether the rows of a curve are of one run: steps that begin anew, and steps that are all the same."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from stagewise.table import check_steps

ROWS = "rows"
"""Name of the step where rows are counted, unless a column has it."""


def check_one_run(rows: pd.DataFrame, name: str, lines: Sequence[int] | None) -> None:
    """Refuse a curve, its rows in their order, with several values at a step, and say what to do.

    `lines` are those of a text in which the rows of its frame stand.
    """
    steps = rows["step"].to_numpy()
    if len(np.unique(steps)) == len(steps):
        return
    if np.ptp(steps) == 0:
        way = f"`steps`, or --step-column, names another column, as of times; {ROWS!r} counts the rows"
        raise ValueError(f"all {len(steps)} values of {name} are at step {steps[0]}: {way}")
    begin = [0, *(np.flatnonzero((np.diff(steps) < 0) & (steps[1:] <= steps[0])) + 1), len(steps)]
    if len(begin) > 2 and not any(pd.Series(part).duplicated().any() for part in np.split(steps, begin[1:-1])):
        places = rows.index if lines is None else np.asarray(lines)[rows.index]
        spans = [(int(places[i]), int(places[j - 1])) for i, j in itertools.pairwise(begin)]
        first, last = spans[-1]
        kind, one = (
            ("rows", f"frame[{first}:{last + 1}]") if lines is None else ("lines", f"sed -n {first},{last}p FILE")
        )
        told = f"{len(spans)} runs: {kind} " + " and ".join(f"{first} to {last}" for first, last in spans)
        way = f"Take one, as by `{one}`, or name them in a column `run`"
        raise ValueError(f"the steps of {name} begin anew, as of {told}. {way}")
    check_steps(rows, name)
