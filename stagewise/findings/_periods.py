"""Which events share a time, and which times follow one another so evenly that they are one period of change."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

WIDE = 2.0
"""Median widths above which an interval joins no two times; a window that is wider than another by the square of this
makes no two sharper ones one."""


def members_of_periods(
    t50: np.ndarray, lo: np.ndarray, hi: np.ndarray, curve: np.ndarray, first: int, last: int, fewest: int
) -> list[list[list[int]]]:
    """Divide onsets, each of a curve, into periods of change, the earliest first: a period's times, each with those
    that share it.

    Onsets whose 95 % intervals overlap, one with the next, share a time; an interval that is more than twice as wide as
    the median one joins the nearest time that it overlaps, and makes no two times one. Times of which there are many
    are one period where that is the shorter description of when the onsets came (minimum description length, Rissanen
    1978), in nats: a time takes log(run / error), and each of its n_k onsets of n takes log(n / n_k), to say that it is
    there. A period of several times takes two steps, its ends, and each of its onsets also log(period / error), to say
    where between them. Run, period and error, which is half the width of the median interval, are differences of log(1
    + step). So a dozen heads one after another, evenly over a decade, are one period; the steps of one curve are none.
    """
    times = _times(t50, lo, hi)
    places = np.array([np.median(t50[each]) for each in times])
    error = max(float(np.median(hi - lo)) / 2, 1 / (1 + last))
    run = math.log1p(last) - math.log1p(first)
    edges = _shortest(places, [curve[each] for each in times], max(run / error, 1), error, fewest)
    return [times[start:stop] for start, stop in edges]


def under_way_together(
    groups: Sequence[Sequence[int]], lo: np.ndarray, hi: np.ndarray, error: np.ndarray, part: np.ndarray
) -> list[list[int]]:
    """Return groups of onsets, those together of which a curve is under way while one of the other is.

    Two windows, from `lo` to `hi`, show that where they share half of the narrower one, if neither is far wider than
    the other. An onset with an error more than twice the median one shows nothing, but for one of the whole model (part
    -1), whose parts the others are, and beside others of the same part: a head that takes to one thing leaves another.
    A group with wider windows joins the first one that its median window goes with: it must not hide that sharper ones
    lie apart.
    """
    if not len(groups):
        return []
    width, known = hi - lo, (error <= WIDE * np.median(error)) | (part < 0)
    pairs = _half_shared(lo[:, None], hi[:, None], lo, hi) & ((known[:, None] & known) | (part[:, None] == part))
    pairs &= np.maximum(width[:, None], width) <= WIDE**2 * np.minimum(width[:, None], width)
    linked = np.array([[pairs[np.ix_(a, b)].any() for b in groups] for a in groups])
    number, part = scipy.sparse.csgraph.connected_components(linked, directed=False)
    places = (np.flatnonzero(part == each).tolist() for each in range(number))
    joined = [[i for place in of for i in groups[place]] for of in places]
    together: list[list[int]] = []
    for members in sorted(joined, key=lambda each: float(np.median(width[each]))):
        telling = [i for i in members if known[i]] or members
        window = np.median(lo[telling]), np.median(hi[telling])
        over = (others for others in together if (_half_shared(*window, lo[others], hi[others]) & known[others]).any())
        if (first := next(over, None)) is None:
            together.append(members)
        else:
            first += members
    return together


def _half_shared(lo: Any, hi: Any, other_lo: Any, other_hi: Any) -> Any:
    """Return whether windows share half of the narrower of two."""
    shared = np.minimum(hi, other_hi) - np.maximum(lo, other_lo)
    return 2 * shared >= np.minimum(hi - lo, other_hi - other_lo)


def _times(t50: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> list[list[int]]:
    """Return which onsets share a time, the earliest time first, from log(1 + step) of t50 and of its interval."""
    links = hi - lo <= WIDE * np.median(hi - lo)
    times: list[tuple[float, float, list[int]]] = []
    order = np.lexsort((lo, np.where(links, 0, hi - lo)))  # the links by their start, then the others by their width
    for i in order.tolist():
        over = [place for place, (start, end, _) in enumerate(times) if lo[i] <= end and start <= hi[i]]
        if not over:
            times.append((lo[i], hi[i], [i]))
            continue
        nearest = min(over, key=lambda place: max(times[place][0] - t50[i], t50[i] - times[place][1], 0))
        start, end, members = times[nearest]
        times[nearest] = (start, max(end, hi[i]) if links[i] else end, [*members, i])
    return sorted((members for _, _, members in times), key=lambda members: float(np.median(t50[members])))


def _shortest(
    places: np.ndarray, curves: Sequence[np.ndarray], steps: float, error: float, fewest: int
) -> Sequence[tuple[int, int]]:
    """Return the division of times into periods (start, stop) with the shortest description."""
    counts, step = np.array([len(each) for each in curves]), math.log(steps)
    total = counts.sum()

    def length(start: int, stop: int) -> float:
        number = counts[start:stop].sum()
        membership = float(number * np.log(total / number))
        if stop - start == 1:
            return membership + step
        return membership + 2 * step + float(number * np.log(max((places[stop - 1] - places[start]) / error, 1)))

    best: list[tuple[float, Sequence[tuple[int, int]]]] = [(0.0, ())]
    since = dict[int, int]()
    for stop, here in enumerate(curves, start=1):
        # From which time on each curve has an onset at every one up to here: a staircase is no period.
        since = {each: since.get(each, stop - 1) for each in here.tolist()}
        starts = (*range(min(stop - fewest + 1, min(since.values()))), stop - 1)
        best.append(min((best[i][0] + length(i, stop), (*best[i][1], (i, stop))) for i in starts))
    return best[-1][1]
