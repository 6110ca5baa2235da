"""The rows of a curve: whether they are of one run, and which are kept of a long log."""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from stagewise.learning_rates import LARGE
from stagewise.table import check_steps

ROWS = "rows"
"""Name of the step where rows are counted, unless a column has it."""


def check_one_run(rows: pd.DataFrame, name: str, lines: Sequence[int] | None) -> None:
    """Refuse a curve, its rows in their order, with several values at a step, and say what to do.

    `lines` are those of a text in which the rows of its frame stand.
    """
    steps = rows["step"].to_numpy()
    if (np.diff(steps) > 0).all() or len(np.unique(steps)) == len(steps):
        return
    if np.ptp(steps) == 0:
        way = f"`steps`, or --step-column, names another column, as of times; {ROWS!r} counts the rows"
        raise ValueError(f"all {len(steps)} values of {name} are at step {steps[0]}: {way}")
    begin = [0, *(np.flatnonzero((np.diff(steps) < 0) & (steps[1:] <= steps[0])) + 1), len(steps)]
    if len(begin) > 2 and not any(pd.Series(part).duplicated().any() for part in np.split(steps, begin[1:-1])):
        places = rows.index if lines is None else np.asarray(lines)[rows.index]
        spans = [(int(places[i]), int(places[j - 1])) for i, j in itertools.pairwise(begin)]
        first, last = spans[-1]
        one = f"frame[{first}:{last + 1}]" if lines is None else f"sed -n {first},{last}p FILE"
        told = " and ".join(f"{first} to {last}" for first, last in spans)
        raise ValueError(
            f"the steps of {name} begin anew, as of {len(spans)} runs: {'rows' if lines is None else 'lines'} {told}. "
            f"Take one, as by `{one}`, or name them in a column `run`"
        )
    check_steps(rows, name)


MOST = 400
"""Values of a curve; of one that has more, neighbouring ones are averaged."""

GROWTH, FINER = 0.03, 10
"""So many are averaged, as a part of those before them; and how many times fewer at the start than at the end: the
deviation of their noise shrinks by the root of that, and more could be taken for an onset."""

CLEARLY, OF_ALL, LEAST = 12, 0.02, 8
"""A part of a curve moves, and is halved, if its halves lie apart by so many times what those of all parts do at the
median, by this part of the curve's range, and hold so many values or more."""


def averaged(curve: pd.DataFrame, rate: bool) -> pd.DataFrame:
    """Return means of neighbouring values where there are many; of a rate the last ones, and those beside its jumps."""
    n, values = len(curve), curve["value"].to_numpy(float)
    if n <= MOST:
        return curve
    largest, edges = 2 * n / MOST, [0.0]
    while edges[-1] < n:
        edges.append(edges[-1] + min(max(largest / FINER, GROWTH * edges[-1]), largest))
    starts = np.unique(np.ceil(edges[:-1]).clip(max=n - 1).astype(int))
    if rate:
        jumps = np.flatnonzero(np.abs(np.diff(values)) > LARGE * np.maximum(values[1:], values[:-1]))
        return curve.iloc[np.unique([*starts[1:] - 1, n - 1, *jumps, *jumps + 1])]
    starts = _cut_where_it_moves(values, starts)
    means = curve.groupby(np.searchsorted(starts, np.arange(n), side="right")).mean()
    steps = means["step"].round().astype(np.int64)
    return means.assign(step=np.append(steps[:-1], curve["step"].iloc[-1]))  # it ends where the log does


def _cut_where_it_moves(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the starts of parts, halved as long as a curve moves within them by more than chance, as all tell."""
    sums, scale = np.append(0.0, np.cumsum(values - values.mean())), None
    while len(starts) < 2 * MOST:
        stops = np.append(starts[1:], len(values))
        middle = (starts + stops) // 2
        apart = (sums[stops] - sums[middle]) / (stops - middle)
        apart = np.abs(apart - (sums[middle] - sums[starts]) / np.maximum(middle - starts, 1))
        lasting, whole = apart * np.sqrt(stops - starts), np.ptp((sums[stops] - sums[starts]) / (stops - starts))
        scale = np.median(lasting) if scale is None else scale
        moves = (middle - starts >= LEAST) & (lasting > CLEARLY * scale) & (apart > OF_ALL * whole)
        if not moves.any():
            break
        starts = np.sort(np.append(starts, middle[moves]))
    return starts
