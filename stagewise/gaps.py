"""Which steps are missing from a series, judged by the spacing of its neighbours."""

import math
from collections.abc import Sequence
from itertools import pairwise

EDGE = 3
"""At the ends, where one side only bears witness, a gap of at most so many strides counts."""

SAME = 1e-9


def missing_steps(steps: Sequence[int]) -> list[int]:
    """Return the steps that an even or a geometric spacing skips.

    A gap is judged by the strides on both of its sides: if they are equal, and the gap is a whole multiple of them,
    the steps between are missing. Where the spacing changes nothing is said. At either end of the series the two
    strides next to the gap bear witness.

    Args:
        steps: ascending, each once.

    >>> missing_steps([0, 100, 200, 400, 500, 600])
    [300]
    >>> missing_steps([0, 1, 2, 4, 8, 32, 64, 128])
    [16]
    >>> missing_steps([0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 2000, 3000])
    []
    """
    even = _skipped([float(step) for step in steps])
    positive = [step for step in steps if step > 0]
    geometric = _skipped([math.log(step) for step in positive])
    found = {round(value) for value in even} | {round(math.exp(value)) for value in geometric}
    return sorted(found - set(steps))


def _skipped(places: Sequence[float]) -> list[float]:
    gaps = [after - before for before, after in pairwise(places)]
    found: list[float] = []
    for i, gap in enumerate(gaps):
        stride, at_edge = _stride(gaps, i)
        if stride is None:
            continue
        times = gap / stride
        if round(times) < 2 or abs(times - round(times)) > SAME * max(times, 1) or (at_edge and round(times) > EDGE):
            continue
        found += [places[i] + k * stride for k in range(1, round(times))]
    return found


def _stride(gaps: Sequence[float], i: int) -> tuple[float | None, bool]:
    """Return the stride that both witnesses of a gap agree on, and whether the gap is at an end."""
    at_edge = i in (0, len(gaps) - 1)
    if len(gaps) < 3:
        return None, at_edge
    if i == 0:
        one, other = gaps[1], gaps[2]
    elif i == len(gaps) - 1:
        one, other = gaps[-2], gaps[-3]
    else:
        one, other = gaps[i - 1], gaps[i + 1]
    return (one if math.isclose(one, other, rel_tol=SAME) else None), at_edge
